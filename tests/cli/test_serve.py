import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
def test_a_missing_extra_is_named(package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from fullrank.cli.main import main; main(['serve'])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.returncode == 2
    assert "pip install 'fullrank[serve]'" in shown.stderr


def test_what_is_not_a_model_is_a_sentence(program, tmp_path):
    status, _, errors = program("serve", tmp_path / "nowhere")
    assert status == 2
    assert "nowhere" in errors
