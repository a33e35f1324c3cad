"""Damaged input never ends in a traceback, a hang, or wrong data read as good."""

import sys

import pytest

from fuzz.harness import figures, fuzz
from fuzz.surfaces import SURFACES

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="limits of memory are those of Linux"
)


def check(name, count, folder, capsys):
    outcomes = fuzz(name, range(count), folder)
    with capsys.disabled():
        print(f"\n{name}: {count} damaged inputs: {figures(outcomes.values())}")
    failures = {seed: o.failure for seed, o in outcomes.items() if o.failure}
    assert not failures, "\n".join(f"{name} {s}: {f}" for s, f in failures.items())


@pytest.mark.parametrize("name", SURFACES)
def test_some_damaged_inputs(name, tmp_path, capsys):
    check(name, 20, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", SURFACES)
def test_many_damaged_inputs(name, tmp_path, capsys):
    check(name, 300, tmp_path, capsys)
