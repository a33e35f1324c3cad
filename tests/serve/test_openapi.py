"""The server does what its description says."""

import subprocess
import sys
from pathlib import Path

import pytest

# A text that is no SMILES, or a table without the column, is as a schema allows and is
# refused with 422 all the same.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 404, 422, 503]
"""


@pytest.mark.slow
def test_schemathesis_finds_no_failure(server, tmp_path):
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    program = Path(sys.executable).parent / "schemathesis"
    options = ["--max-examples", "20", "--seed", "0", "--no-color"]
    options += ["--request-timeout", "100"]  # the machine may be busy
    address = f"{server.address}/openapi.json"
    done = subprocess.run(
        [program, "--config-file", config, "run", address, *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_every_operation_is_described(server):
    described = server.json("/openapi.json")["paths"]
    assert described.keys() == {
        "/health",
        "/models",
        "/predict",
        "/draw",
        "/explain",
        "/lab",
    }
    for operations in described.values():
        for operation in operations.values():
            assert operation["summary"]
            assert {"200", "401"} <= operation["responses"].keys()
