"""Damaged input never ends in a traceback, a hang, or wrong data read as good."""

import sys

import pytest

from fuzz.harness import ALL, figures, fuzz

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="limits of memory are those of Linux"
)


def check(name, count, folder, capsys):
    outcomes = fuzz(name, range(count), folder)
    with capsys.disabled():
        print(f"\n{name}: {count} damaged inputs: {figures(outcomes.values())}")
    failures = {seed: o.failure for seed, o in outcomes.items() if o.failure}
    assert not failures, "\n".join(f"{name} {s}: {f}" for s, f in failures.items())


@pytest.mark.parametrize("name", sorted(ALL.keys() - {"export"}))  # which takes long
def test_some_damaged_inputs(name, tmp_path, capsys):
    check(name, ALL[name].inputs // 15, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ALL)
def test_many_damaged_inputs(name, tmp_path, capsys):
    check(name, ALL[name].inputs, tmp_path, capsys)
