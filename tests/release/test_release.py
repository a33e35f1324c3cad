"""Whether the package can be released: what `make release-check` runs first."""

import csv
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

from fullrank.version import __version__
from release.environments import ROOT, Fresh

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_metadata_and_content(distributions):
    wheel, source = distributions
    check = [sys.executable, "-m", "twine", "check", "--strict", wheel, source]
    subprocess.run(check, check=True)
    assert wheel.name.startswith(f"fullrank-{__version__}-py3-none-any")
    with zipfile.ZipFile(wheel) as archive:
        names = {*archive.namelist()}
    assert "fullrank/py.typed" in names
    # All that is beside the code, such as templates and experiments, is in the wheel.
    package = ROOT / "src" / "fullrank"
    tracked = subprocess.run(
        ["git", "ls-files", package], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    assert {name.removeprefix("src/") for name in tracked} <= names
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= inside


def test_the_changelog_speaks_of_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    sections = dict(re.findall(r"^## \[(.+?)\].*\n((?:(?!^## ).*\n)*)", text, re.M))
    described = subprocess.run(
        ["git", "describe", "--exact-match", "--tags"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if described.returncode == 0:  # a release
        assert described.stdout.strip() == f"v{__version__}"
        assert sections[__version__].strip()
    else:
        assert (sections.get("Unreleased") or sections[__version__]).strip()


def test_quick_start_and_prediction_in_a_fresh_environment(wheel, tmp_path):
    fresh = Fresh(tmp_path, wheel, "chem")
    where = fresh.python("import fullrank; print(fullrank.__file__)")
    assert str(fresh.folder) in where
    assert fresh.run("fullrank", "--version") == f"fullrank {__version__}\n"
    small = ("--molecules", "300", "--epochs", "1")
    report = re.search(r"report: (.+)", fresh.run("fullrank", "quickstart", *small))
    assert report is not None
    with open(report[1], encoding="utf-8") as page:
        assert "Learning curves" in page.read()
    (fresh.home / "new.csv").write_text("smiles\nCCO\nc1ccccc1\nnonsense\n")
    model = next(fresh.home.glob("runs/*expc*/model.safetensors"))
    fresh.run("fullrank", "predict", model, "new.csv", "-o", "predicted.csv")
    with (fresh.home / "predicted.csv").open(newline="") as stream:
        ethanol, benzene, nonsense = csv.DictReader(stream)
    column = next(name for name in ethanol if name.startswith("predicted_"))
    assert float(ethanol[column]) != float(benzene[column])
    assert nonsense[column] == ""
    assert "nonsense" in nonsense["reason"]
    # A model that comes with the package needs nothing but the table.
    fresh.run("fullrank", "predict", "qm9", "new.csv")
    with (fresh.home / "new.predicted.csv").open(newline="") as stream:
        ethanol, *_ = csv.DictReader(stream)
    assert float(ethanol["predicted_U0"]) == pytest.approx(-155.0, abs=0.1)
