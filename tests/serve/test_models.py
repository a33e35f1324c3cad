import shutil

import pytest

from fullrank.data import MoleculeFeaturizer, QM9Featurizer
from fullrank.errors import ConfigError, ModelError
from fullrank.serve.models import ServedModel, load_models, usable_interval
from fullrank.train import Model
from fullrank.train.model import Histogram
from fullrank.train.predict import Predictor
from train.specs import spec


def card(task, outputs=1, **options):
    network = {"in_channels": 4, "hidden_channels": 4, "num_layers": 1}
    options = {"featurizer": MoleculeFeaturizer(), **options}
    described = spec(task, network={**network, "out_channels": outputs}, **options)
    return ServedModel("a", Predictor([Model(described)]), None, room=1).card


def test_classes_have_their_share_of_the_training_labels():
    classes = {"num_classes": 3, "classes": ("x", "y", "z")}
    counted = Histogram(low=0, high=2, counts=(1, 1, 2))
    known = card("multiclass", 3, **classes, distributions=(counted,)).outputs
    assert [(one.name, one.share) for one in known] == [
        ("x", 0.25),
        ("y", 0.25),
        ("z", 0.5),
    ]
    earlier = card("multiclass", 3, **classes).outputs
    assert [one.share for one in earlier] == [None] * 3
    nothing = Histogram(low=0, high=1, counts=(0, 0))
    assert card("binary", distributions=(nothing,)).outputs[0].share is None


def test_a_model_that_needs_a_geometry_says_that_it_is_not_the_same():
    moments = {"mean": (0.0,), "std": (1.0,)}
    made = card("regression", featurizer=QM9Featurizer(), **moments)
    assert "QM9" in made.warning
    assert not made.explains
    assert card("regression", **moments).warning is None


def test_models_are_called_as_their_file_or_folder_or_as_one_says(models, tmp_path):
    mailed = shutil.copy(models.ring, tmp_path / "ring.safetensors")
    folder = models.values.parent
    found = load_models([str(mailed), f"mine={mailed}", str(folder)])
    assert list(found) == ["ring", "mine", folder.name]
    assert list(load_models([str(models.values)])) == [folder.name]
    with pytest.raises(ConfigError, match="'ring'"):
        load_models([str(mailed), f"ring={models.values}"])
    with pytest.raises(ModelError, match="nowhere"):
        load_models([f"ring={tmp_path / 'nowhere.safetensors'}"])


def test_models_that_come_with_the_package_are_served_by_name():
    found = load_models(["solubility", "barrier=bbb"])
    assert list(found) == ["solubility", "barrier"]
    assert found["barrier"].spec.targets[0].name == "p_np"


def test_intervals_are_there_where_they_can_be(models):
    values, ring = load_models([f"a={models.values}", f"b={models.ring}"]).values()
    assert usable_interval(values, None) == 90
    assert usable_interval(values, 50) == 50
    assert usable_interval(ring, None) is None
    with pytest.raises(ConfigError, match="99"):
        usable_interval(values, 99)  # 14 graphs are too few
    with pytest.raises(ConfigError):
        usable_interval(ring, 90)
