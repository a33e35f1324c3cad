"""What importing the package brings along."""

import subprocess
import sys

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
