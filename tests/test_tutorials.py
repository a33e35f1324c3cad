"""The tutorials do what they say; ``make docs`` runs the others."""

import re
import shlex
from pathlib import Path

import pytest

from fullrank.cli.main import main

TUTORIALS = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
_CELL = re.compile(r"```\{code-cell\} ipython3\n(?::tags:[^\n]*\n)?(.*?)```", re.S)


@pytest.mark.usefixtures("one_thread")
def test_from_a_spreadsheet_to_predictions(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FULLRANK_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    text = (TUTORIALS / "from-a-spreadsheet-to-predictions.md").read_text("utf-8")
    names: dict = {}
    printed = []
    for cell in _CELL.findall(text):
        if not cell.startswith("! "):
            exec(cell, names)
            continue
        for line in cell.strip().splitlines():
            with pytest.raises(SystemExit) as ended:
                main(shlex.split(line.removeprefix("! "))[1:])
            assert not ended.value.code, line
            printed.append(capsys.readouterr())
    assert "'Structure'" in printed[0].err
    page = Path(printed[2].out.strip()) / "page.html"
    assert "C1CC" in page.read_text(encoding="utf-8")
