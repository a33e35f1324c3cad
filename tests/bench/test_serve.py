import json
import math

import pytest

from fullrank.bench import serve
from fullrank.bench.serve import _Seen
from train.samples import small_config, untrained


def row(smiles, value=None, reason=None):
    values = {} if value is None else {"y": value}
    return {"smiles": smiles, "values": values, "reason": reason}


@pytest.mark.parametrize(
    ("answered", "wrong"),
    [
        ([row("C", 1.0), row("CC", 2.0), row("x", reason="bad")], 0),
        ([row("C", 1.0), row("CC", 2.0)], 1),
        ([row("CC", 2.0), row("C", 1.0), row("x", reason="bad")], 2),
        ([row("C", 2.0), row("CC", 2.0), row("x", 1.0)], 2),
        ([row("C", reason="?"), row("CC", 2.0), row("x", reason="bad")], 1),
        ([row("C", 1.0), row("CC", 2.0), row("x", reason="bad"), row("C", 1.0)], 1),
    ],
)
def test_lost_and_exchanged_rows_are_seen(answered, wrong):
    seen = _Seen("y", {"C": 1.0, "CC": 2.0, "x": math.nan})
    seen.add(["C", "CC", "x"], {"predictions": answered})
    assert seen.wrong_rows == wrong


@pytest.mark.slow
def test_clients_are_answered(tmp_path):
    model = untrained(small_config(tmp_path), tmp_path / "model.safetensors")
    table, numbers = tmp_path / "molecules.csv", tmp_path / "load.json"
    found = serve.run(True, numbers, model, table, clients=20, seconds=5)
    assert found.requests > 20
    assert found.rows > found.requests
    assert json.loads(numbers.read_text())["load"]["ended"] == 0
