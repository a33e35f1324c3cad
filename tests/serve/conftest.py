"""A real server with two small trained models."""

import http.client
import json
import signal
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from fullrank.train import run_one
from train.samples import small_config, start


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """The files of a regression with intervals and of a classification."""
    folder = tmp_path_factory.mktemp("models")
    values = small_config(
        folder, targets=("logp", "weight"), split={"calibration": 0.2}
    )
    classes = small_config(folder, targets=("ring",), task="binary")
    return SimpleNamespace(
        values=run_one(values).model_file, ring=run_one(classes).model_file
    )


class Server:
    """A running program and how to ask it."""

    def __init__(self, process, address):
        self.process, self.address = process, address

    def connect(self):
        return http.client.HTTPConnection(self.address.removeprefix("http://"))

    def ask(self, method, path, body=None, kind=None, **headers):
        """The status, the headers and the content of an answer."""
        if kind is not None:
            headers["Content-Type"] = kind
        connection = self.connect()
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    def json(self, path, question=None):
        """What is answered to a question that is in order."""
        if question is None:
            status, _, content = self.ask("GET", path)
        else:
            text = json.dumps(question)
            status, _, content = self.ask("POST", path, text, "application/json")
        assert status == 200, content
        return json.loads(content)

    def stop(self):
        """Ask it to end; its status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def serving(*arguments):
    process = start("serve", *arguments, "--port", 0)
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://"), process.communicate()
        yield Server(process, address)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def server(models):
    with serving(f"values={models.values}", f"ring={models.ring}") as running:
        yield running
