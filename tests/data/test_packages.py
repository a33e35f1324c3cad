import sys
import tomllib
from pathlib import Path

import pytest

from fullrank.data import MoleculeFeaturizer, load_dataset, read_smiles_csv
from fullrank.data.packages import need
from fullrank.data.sources import ogb


@pytest.mark.parametrize("package", ["rdkit", "ogb"])
def test_a_missing_package_says_how_to_install_it(monkeypatch, tmp_path, package):
    (tmp_path / "t.csv").write_text("smiles,y\nC,1\n")
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    need.cache_clear()
    sentence = rf"molecules need {package}: pip install 'fullrank\[chem\]'"
    with pytest.raises(ModuleNotFoundError, match=sentence):
        MoleculeFeaturizer().from_smiles("CCO")
    with pytest.raises(ModuleNotFoundError, match=sentence):
        read_smiles_csv(tmp_path / "t.csv", ["y"], root=tmp_path)


def test_the_extra_brings_what_molecules_need():
    file = Path(__file__).parents[2] / "pyproject.toml"
    extras = tomllib.loads(file.read_text())["project"]["optional-dependencies"]
    names = [requirement.split(">")[0] for requirement in extras["chem"]]
    assert {"rdkit", "ogb"} <= set(names)


def test_a_set_of_a_missing_package_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ogb", None)
    ogb._master.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=r"fullrank\[ogb\]"):
        load_dataset("ogbg-molhiv", root=tmp_path)
