import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fullrank.data import MoleculeFeaturizer, load_dataset, read_smiles_csv
from fullrank.data.ogb_features import ogb_features
from fullrank.data.sources import ogb
from fullrank.errors import MissingPackage
from fullrank.extras import EXTRAS, need

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Where they differ from the name of the distribution.
MODULES = {"pyyaml": "yaml", "POT": "ot", "scikit-learn": "sklearn"}


def modules_of(requirements):
    names = [re.match(r"[\w.-]+", line).group() for line in requirements]
    return {MODULES.get(name, name) for name in names} - {"fullrank"}


def imported_modules():
    """The top-level modules that any file of the package imports, in functions too."""
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    return found - {"fullrank"} - sys.stdlib_module_names


def test_what_is_imported_is_what_is_declared():
    core = modules_of(PROJECT["dependencies"])
    by_others = {"qm9pack", "onnx", "onnxscript"}  # found by path, or by torch
    assert imported_modules() | by_others == core | EXTRAS.keys()


def test_the_tested_versions_are_in_the_declared_ranges():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = {canonicalize_name(name): version for name, version in map(_pin, lines)}
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for wanted in map(Requirement, (line for group in groups for line in group)):
        if wanted.name != "fullrank":
            assert pins[canonicalize_name(wanted.name)] in wanted.specifier, wanted


def _pin(line):
    name, _, version = line.partition("==")
    return name, version


@pytest.mark.parametrize("package", EXTRAS)
def test_the_extra_brings_the_package(package):
    extras = PROJECT["optional-dependencies"]
    assert package in modules_of(extras[EXTRAS[package]])


@pytest.fixture
def uninstall(monkeypatch):
    def hide(package):
        monkeypatch.setitem(sys.modules, package, None)
        need.cache_clear()
        ogb_features.cache_clear()

    yield hide
    need.cache_clear()


@pytest.mark.parametrize("package", ["rdkit", "ogb"])
def test_a_missing_package_says_which_extra_brings_it(uninstall, tmp_path, package):
    (tmp_path / "t.csv").write_text("smiles,y\nC,1\n")
    uninstall(package)
    extra = rf"'fullrank\[{EXTRAS[package]}\]'"
    with pytest.raises(MissingPackage, match=extra):
        MoleculeFeaturizer().from_smiles("CCO")
    with pytest.raises(MissingPackage, match=extra):
        read_smiles_csv(tmp_path / "t.csv", ["y"], root=tmp_path)


def test_a_set_of_a_missing_package_says_which_extra_brings_it(uninstall, tmp_path):
    uninstall("ogb")
    ogb._master.cache_clear()
    with pytest.raises(MissingPackage, match=r"fullrank\[ogb\]"):
        load_dataset("ogbg-molhiv", root=tmp_path)
