"""``fullrank quickstart`` as a person runs it, on few molecules."""

import pytest

from fullrank.cli.main import main
from fullrank.train import RunFolder


def test_trains_compares_and_reports(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("FULLRANK_ROOT", str(tmp_path / "root"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["quickstart", "--molecules", "150", "--epochs", "1", "-q"])
    output = capsys.readouterr().out
    assert not ended.value.code
    results = [run.result for run in RunFolder.all_in(tmp_path / "runs")]
    assert len(results) == 4
    assert {result.conv for result in results} == {"gin0", "expc"}
    for result in results:
        assert f"{result.test['mae']:.5f}" in output
    page = (tmp_path / "runs" / "quickstart.html").read_text()
    assert str(tmp_path / "runs" / "quickstart.html") in output
    for name in ("GIN-0", "ExpC-1", "ExpC-4", "ExpC-16"):
        assert name in output
        assert f"{name}, valid" in page
