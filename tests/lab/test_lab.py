"""What importing the lab brings along."""

import subprocess
import sys

CODE = """
import sys
for package in ("lightning", "pydantic", "typer", "rich", "plotly", "rdkit"):
    sys.modules[package] = None  # as if it were not installed
from fullrank.lab import *
import fullrank.lab
from fullrank.errors import MissingPackage
loaded = {name.split(".")[1] for name in sys.modules if name.startswith("fullrank.")}
assert loaded == {"errors", "extras", "lab", "nn", "version"}, loaded
try:
    fullrank.lab.RankMonitor
except MissingPackage as error:
    print(error)
"""


def test_it_needs_the_layers_only_and_names_what_the_monitor_needs():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "fullrank[program]" in done.stdout
