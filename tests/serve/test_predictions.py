"""Tables and long requests come back whole."""

import numpy as np
import pytest

from fullrank import load
from serve.test_app import BAD, rows_of
from train.samples import SMILES


def test_a_table_keeps_its_rows_and_columns(server, models):
    lines = ["name;SMILES;predicted_logp", "a;CCO;old", "b;nonsense;", "c", 'd;"C;C";']
    path = "/predict?column=SMILES"
    status, headers, content = server.ask("POST", path, "\n".join(lines), "text/csv")
    assert status == 200
    assert headers["Content-Type"].startswith("text/csv")
    rows = rows_of(content)
    assert [row["name"] for row in rows] == ["a", "b", "c", "d"]
    truth = load(models.values).predict(["CCO"])["predicted_logp"][0]
    assert float(rows[0]["predicted_logp"]) == pytest.approx(truth, rel=1e-5)
    assert [bool(row["reason"]) for row in rows] == [False, True, True, True]


def test_a_long_table_comes_back_whole_and_in_order(server, models):
    texts = [*SMILES, *BAD] * 20
    table = "smiles,row\n" + "".join(f'"{t}",{n}\n' for n, t in enumerate(texts))
    status, _, content = server.ask("POST", "/predict", table.encode(), "text/csv")
    assert status == 200
    rows = rows_of(content)
    assert [int(row["row"]) for row in rows] == list(range(len(texts)))
    assert [row["smiles"] for row in rows] == texts
    assert sum(bool(row["reason"]) for row in rows) == 20 * len(BAD)
    truth = load(models.values).predict(SMILES)["predicted_weight"]
    found = [float(row["predicted_weight"] or "nan") for row in rows[-76:]]
    np.testing.assert_allclose(found[:-5], truth, rtol=1e-5)


def test_no_molecules_have_no_predictions(server):
    assert server.json("/predict", {"smiles": []})["predictions"] == []
    status, _, content = server.ask("POST", "/predict", "smiles\n", "text/csv")
    assert (status, rows_of(content)) == (200, [])
