import shutil

import pytest

from fullrank.errors import ConfigError, RunError
from fullrank.serve.models import load_models, usable_interval


def test_models_are_called_as_their_file_or_folder_or_as_one_says(models, tmp_path):
    mailed = shutil.copy(models.ring, tmp_path / "ring.safetensors")
    folder = models.values.parent
    found = load_models([str(mailed), f"mine={mailed}", str(folder)])
    assert list(found) == ["ring", "mine", folder.name]
    assert list(load_models([str(models.values)])) == [folder.name]
    with pytest.raises(ConfigError, match="'ring'"):
        load_models([str(mailed), f"ring={models.values}"])
    with pytest.raises(RunError, match="nowhere"):
        load_models([f"ring={tmp_path / 'nowhere.safetensors'}"])


def test_intervals_are_there_where_they_can_be(models):
    values, ring = load_models([f"a={models.values}", f"b={models.ring}"]).values()
    assert usable_interval(values, None) == 90
    assert usable_interval(values, 50) == 50
    assert usable_interval(ring, None) is None
    with pytest.raises(ConfigError, match="99"):
        usable_interval(values, 99)  # 14 graphs are too few
    with pytest.raises(ConfigError):
        usable_interval(ring, 90)
