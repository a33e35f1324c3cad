import asyncio
import csv
import io
import json
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fullrank import load
from fullrank.serve import app as app_module
from fullrank.serve.app import Limits, create_app
from fullrank.serve.models import ServedModel
from serve.asgi import ask
from serve.conftest import serving
from train.samples import SMILES

BAD = ["nonsense", "", "C(", "é", "c1ccccc"]


def rows_of(content):
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


def test_health_and_models(server, models):
    assert str(models.values.parents[1]).encode() not in server.ask("GET", "/models")[2]
    assert server.json("/health")["models"] == ["values", "ring"]
    values, ring = server.json("/models")["models"]
    assert values["task"] == "regression"
    assert values["interval"] == 90
    assert [output["name"] for output in values["outputs"]] == ["logp", "weight"]
    assert values["outputs"][0]["low"] in values["columns"]
    assert values["outputs"][0]["training"]["counts"]
    assert 0 < ring["outputs"][0]["share"] < 1
    assert ring["interval"] is None
    assert ring["outputs"][0]["low"] is None


@pytest.mark.parametrize("name", ["values", "ring"])
def test_predictions_are_those_of_the_library(server, models, name):
    asked = SMILES + BAD
    found = server.json(f"/predict?model={name}", {"smiles": asked})
    assert found["model"] == name
    assert [row["smiles"] for row in found["predictions"]] == asked
    interval = 90 if name == "values" else None
    truth = load(getattr(models, name)).predict(asked, interval)
    for row, expected in zip(
        found["predictions"], truth.to_dict("records"), strict=True
    ):
        if row["reason"] is not None:
            assert row["values"] == {}
            assert row["reason"] == expected["reason"]
            continue
        for column, value in row["values"].items():
            assert value == pytest.approx(expected[column], rel=1e-5)
        assert row["similarity"] == expected["similarity"]
    assert sum(row["reason"] is not None for row in found["predictions"]) == len(BAD)


@pytest.mark.parametrize(
    ("status", "path", "body", "kind", "named"),
    [
        (404, "/predict?model=rong", '{"smiles": ["C"]}', "application/json", "rong"),
        (404, "/predict?model=../../etc/passwd", "{}", "application/json", "passwd"),
        (415, "/predict", '{"smiles": ["C"]}', "text/plain", "text/plain"),
        (422, "/predict", '{"smiles": "C"}', "application/json", "smiles"),
        (422, "/predict", "{", "application/json", "JSON"),
        (422, "/predict", '{"smiles": [7]}', "application/json", "smiles.0"),
        (422, "/predict", "name\nC\n", "text/csv", "'smiles'"),
        (422, "/predict", b"smiles\n\xff\n", "text/csv", "0xff"),
        (422, "/predict", 'smiles\n"C\n', "text/csv", "line 2"),
        (422, "/predict?column=x", "smiles\nC\n", "text/csv", "'x'"),
    ],
)
def test_what_is_wrong_is_a_sentence(server, status, path, body, kind, named):
    found, headers, content = server.ask("POST", path, body, kind)
    assert found == status
    assert headers["Content-Type"] == "application/json"
    assert named in json.loads(content)["detail"]


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/static/../app.py"],
)
def test_a_path_is_never_a_file(server, path):
    assert server.ask("GET", path)[0] == 404


def test_the_page_is_what_it_is_whatever_the_address_says(server):
    page = (Path(app_module.__file__).parent / "static" / "index.html").read_bytes()
    for path in ("/", "/?content=%3Cscript%3E&kind=text/plain&file=/etc/passwd"):
        status, headers, content = server.ask("GET", path)
        assert (status, content) == (200, page)
        assert headers["Content-Type"].startswith("text/html")
        assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_a_page_of_another_host_name_is_not_answered(server):
    assert server.ask("GET", "/health", Host="evil.example")[0] == 400


@pytest.fixture(scope="module")
def app(models):
    """Its parts, without a server."""
    model = ServedModel("values", load(models.values), None, room=512)
    yield SimpleNamespace(
        model=model, of=lambda **limits: made({"values": model}, limits)
    )
    model.batcher.close()


def made(models, limits):
    return create_app(models, Limits(**limits), local=False)


def predict(app, smiles):
    body = json.dumps({"smiles": smiles}).encode()
    kind = "application/json"
    return ask(app, "POST", "/predict", [body], content_type=kind)


def test_a_full_queue_is_said_at_once(app, monkeypatch):
    monkeypatch.setattr(app.model.batcher, "room", 1)
    assert predict(app.of(), ["C"])[0] == 200
    status, headers, content = predict(app.of(), ["C", "CC"])
    assert status == 503
    assert int(headers["retry-after"]) > 0
    assert json.loads(content)["detail"]


def test_an_answer_that_takes_too_long_is_given_up(app):
    status, _, content = predict(app.of(seconds=0), ["C"])
    assert status == 504
    assert json.loads(content)["detail"]


def test_rows_that_are_late_say_so_in_their_place(app, monkeypatch):
    batcher, count = app.model.batcher, 300
    in_time = batcher.answers

    async def answers(items):
        if len(items) < batcher.at_once:  # the last block
            await asyncio.Event().wait()
        return await in_time(items)

    monkeypatch.setattr(batcher, "answers", answers)
    status, _, content = predict(app.of(seconds=3), ["C"] * count)
    assert status == 200
    reasons = [row["reason"] for row in json.loads(content)["predictions"]]
    assert len(reasons) == count
    assert set(reasons[: batcher.at_once]) == {None}
    assert all("3 s" in reason for reason in reasons[batcher.at_once :])


def test_a_number_that_is_none_is_not_a_prediction(app, monkeypatch):
    monkeypatch.setattr(
        app.model.predictor, "values", lambda graphs, _: np.array([[np.nan, 1.0]])
    )
    (row,) = json.loads(predict(app.of(), ["C"])[2])["predictions"]
    assert row["values"] == {}
    assert "finite" in row["reason"]


@pytest.fixture(scope="module")
def strict(models):
    """A server with a token and small limits."""
    limits = ("--max-upload", 0.03, "--max-rows", 256, "--interval", 80)
    with serving(models.values, *limits, "--token", "secret") as running:
        yield running


TOKEN = {"Authorization": "Bearer secret"}


def test_the_token_and_the_limits_of_a_strict_server(strict):
    assert strict.ask("GET", "/health")[0] == 401
    assert strict.ask("GET", "/nowhere")[0] == 401
    status, _, content = strict.ask("GET", "/models", **TOKEN)
    assert status == 200
    assert json.loads(content)["models"][0]["interval"] == 80
    long = "smiles\n" + "C\n" * 16_000
    assert strict.ask("POST", "/predict", long, "text/csv", **TOKEN)[0] == 413
    fits = "smiles\n" + "C\n" * 4000  # more than may wait at a time
    status, _, content = strict.ask("POST", "/predict", fits, "text/csv", **TOKEN)
    assert status == 200
    rows = rows_of(content)
    assert len(rows) == 4000
    assert not any(row["reason"] for row in rows)


def test_requests_that_are_running_when_it_is_told_to_end_are_answered(strict):
    asked = SMILES * 20
    connection = strict.connect()
    headers = {"Content-Type": "application/json", **TOKEN}
    connection.request("POST", "/predict", json.dumps({"smiles": asked}), headers)
    answer = connection.getresponse()  # the first block is there
    status = []
    ending = threading.Thread(target=lambda: status.append(strict.stop()))
    ending.start()
    found = json.loads(answer.read())["predictions"]
    connection.close()
    ending.join()
    assert status == [0]
    assert len(found) == len(asked)
    assert all(row["reason"] is None for row in found)
