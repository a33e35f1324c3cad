import pytest

from fullrank import load
from fullrank.errors import DataError
from fullrank.serve.studio import Question, Studio


@pytest.fixture(scope="module")
def studio(models):
    return Studio({"values": load(models.values), "ring": load(models.ring)})


@pytest.mark.parametrize(
    ("model", "target"), [("values", "weight"), ("values", None), ("ring", "ring")]
)
def test_explanations_are_those_of_the_library(studio, model, target):
    smiles = "CC(=O)Nc1ccccc1"
    (found,) = studio([Question(smiles, model, target)])
    truth = studio.predictors[model].explain(smiles, target)
    assert found.target == truth.target
    assert found.value == pytest.approx(truth.value)
    assert [part.contribution for part in found.atoms] == pytest.approx(truth.atoms)
    assert [part.contribution for part in found.bonds] == pytest.approx(truth.bonds)
    assert [part.name[0] for part in found.atoms] == [
        c for c in smiles.upper() if c.isalpha()
    ]
    assert found.svg.startswith("<svg")


def test_what_cannot_be_drawn_has_a_reason_in_its_place(studio):
    drawn, *reasons = studio(
        [
            Question("CCO"),
            Question("nonsense"),
            Question("C" * 400),
            Question("CCO", "values", "nowhere"),
        ]
    )
    assert drawn.startswith("<svg")
    assert all(isinstance(reason, DataError) for reason in reasons)
    for reason, named in zip(reasons, ("nonsense", "400", "nowhere"), strict=True):
        assert named in str(reason)
