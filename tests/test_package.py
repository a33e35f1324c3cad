"""What importing the package brings along."""

import importlib
import subprocess
import sys
import types

import pytest

HEAVY = ["lightning", "pandas", "rdkit", "ogb", "plotly", "ray", "typer", "pydantic"]


def test_the_layers_need_the_core_only():
    """`import fullrank.nn` loads nothing that PyG itself does not load."""
    code = (
        "import sys, torch_geometric.nn; before = set(sys.modules)\n"
        "import fullrank.nn\n"
        f"print([m for m in {HEAVY} if m in set(sys.modules) - before])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "name",
    ["fullrank", *(f"fullrank.{part}" for part in ("nn", "lab", "data", "train"))],
)
def test_no_public_name_is_hidden_by_a_module(name):
    """A submodule of the same name would replace a function that is loaded lazily."""
    package = importlib.import_module(name)
    for public in package.__all__:
        assert not isinstance(getattr(package, public), types.ModuleType), public
