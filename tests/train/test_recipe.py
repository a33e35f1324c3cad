import pytest

from fullrank.errors import ConfigError, DataError
from fullrank.train import run_experiment
from fullrank.train.evaluate import load_model
from fullrank.train.recipe import RECIPE, recipe
from fullrank.train.run_folder import RunFolder
from train.samples import write_molecules

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def table(tmp_path):
    return write_molecules(tmp_path / "molecules.csv", repeat=2)


def small(tmp_path, **changes):
    """Changes that make a recipe take a second."""
    return {
        "data": {"root": tmp_path / "root"},
        "model": {"hidden": 8, "layers": 1},
        "training": {"epochs": 2},
        "runs": tmp_path / "runs",
        **changes,
    }


def test_the_recipe_is_what_a_table_is_trained_with(table):
    found = recipe(table, ["logp"])
    for key, value in RECIPE["model"].items():
        assert getattr(found.config.model, key) == value
    assert found.config.ensemble == RECIPE["ensemble"]
    assert found.config.data.task == "regression"
    assert found.config.split.kind == "random"
    assert "smiles" in found.notes[0]


def test_what_is_said_of_a_table_is_in_its_configuration(table):
    found = recipe(table, ["ring", "hetero"], split="scaffold", balance=True)
    assert found.config.data.task == "binary"
    assert found.config.training.class_weights == "balanced"
    assert found.config.training.loss is None
    assert found.config.split.kind == "scaffold"
    with pytest.raises(ConfigError, match="scaffold"):
        recipe(table, ["logp"], split="scaffold", split_column="part")


@pytest.mark.parametrize(
    ("targets", "metric"),
    [(["weight", "logp"], "std_mae"), (["ring", "hetero"], "rocauc")],
)
def test_targets_with_holes_are_trained_together(table, tmp_path, targets, metric):
    config = recipe(table, targets, changes=small(tmp_path, ensemble=2)).config
    summary = run_experiment(config)
    assert summary.ensemble == 2
    assert summary.metric == metric
    assert len(summary.runs) == 2
    assert summary.test[metric].mean is not None


def test_labels_with_names_are_zeros_and_ones(table, tmp_path):
    text = table.read_text().replace(",1,", ",yes,").replace(",0,", ",no,")
    named = tmp_path / "named.csv"
    named.write_text(text)
    plain = recipe(table, ["ring"], changes=small(tmp_path)).config.load_data()
    found = recipe(named, ["ring"], changes=small(tmp_path)).config
    assert found.data.labels == ("no", "yes")
    assert (found.load_data().labels == plain.labels).all()


@pytest.mark.parametrize(
    ("column", "values", "word"),
    [
        ("constant", lambda i: 1.5 if i < 90 else 2 + i, "1.5"),
        ("label", lambda i: int(i > 100), "'label'"),
    ],
)
def test_a_part_from_which_nothing_can_be_learned(tmp_path, column, values, word):
    file = tmp_path / "t.csv"
    parts = ["train"] * 90 + ["valid"] * 10 + ["test"] * 10
    rows = [f"{'C' * (i % 9 + 1)},{values(i)},{p}" for i, p in enumerate(parts)]
    file.write_text("\n".join([f"smiles,{column},part", *rows]))
    given = {"split_column": "part", "changes": small(tmp_path, ensemble=None)}
    with pytest.raises(DataError, match=word):
        run_experiment(recipe(file, [column], **given).config)


def test_three_rows_are_too_few(tmp_path):
    file = tmp_path / "three.csv"
    file.write_text("smiles,y\nC,1\nCC,2\nCCC,3\n")
    with pytest.raises(DataError, match=" 3 "):
        run_experiment(recipe(file, ["y"], changes=small(tmp_path)).config)


def test_fine_tuning_starts_from_the_weights_of_a_model(table, tmp_path):
    first = recipe(table, ["logp"], changes=small(tmp_path, ensemble=2)).config
    trained = first.runs / run_experiment(first).experiment
    changes = {k: v for k, v in small(tmp_path).items() if k != "model"}
    changes["optimizer"] = {"lr": 1e-12}
    tuned = recipe(table, ["weight"], start=trained, changes=changes).config
    assert tuned.model.hidden == 8
    assert tuned.ensemble == 2
    runs = [RunFolder(first.runs / name) for name in run_experiment(tuned).runs]
    before = RunFolder(first.runs / run_experiment(first).runs[1])
    old, new = (load_model(run).network for run in (before, runs[1]))
    for name, weight in old.named_parameters():
        assert (new.get_parameter(name) - weight).abs().max() < 1e-6, name


def test_another_network_cannot_be_fine_tuned(table, tmp_path):
    first = recipe(table, ["logp"], changes=small(tmp_path, ensemble=None)).config
    trained = first.runs / run_experiment(first).experiment
    other = small(tmp_path, model={"hidden": 16}, ensemble=None)
    with pytest.raises(ConfigError, match="network"):
        run_experiment(recipe(table, ["logp"], start=trained, changes=other).config)
    other = small(tmp_path, model={"descriptors": None}, ensemble=None)
    with pytest.raises(ConfigError, match="featurizer"):
        run_experiment(recipe(table, ["logp"], start=trained, changes=other).config)
