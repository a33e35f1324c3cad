import json
from pathlib import Path

from paper.samples import write_qm9

COMMITTED = Path(__file__).parents[2] / "docs" / "results" / "results.json"


def test_a_report_of_run_folders_and_of_its_own_json(program, tmp_path):
    write_qm9(tmp_path / "runs", seeds=1)
    status, _, errors = program("report", "runs", "--out", "made")
    assert status == 0
    assert "results.html" in errors
    source = "made/results.json"
    status, _, errors = program("report", source, "--out", "again")
    assert status == 0
    for name in ("results.md", "results.json"):
        made, again = (tmp_path / folder / name for folder in ("made", "again"))
        assert made.read_text() == again.read_text()


def test_the_committed_results_are_shown_as_they_were(program, tmp_path):
    assert program("report", COMMITTED, "--out", "made")[0] == 0
    text = (tmp_path / "made" / "results.md").read_text()
    assert text == COMMITTED.with_suffix(".md").read_text()
    assert (tmp_path / "made" / "results.html").exists()


def test_a_run_that_cannot_be_read_is_named_and_left_out(program, tmp_path):
    write_qm9(tmp_path / "runs", seeds=1)
    folder = min((tmp_path / "runs").iterdir())
    folder.rename(folder.with_name("qm9-expc-000000000000"))
    status, _, errors = program("report", "runs")
    assert status == 0
    assert "qm9-expc-000000000000:" in errors


def test_what_cannot_be_reported_on(program, tmp_path):
    for content in ("[]", "", '{"format": 1}', '{"format": 99}'):
        (tmp_path / "results.json").write_text(content)
        status, _, errors = program("report", "results.json")
        assert status == 2
        assert errors.startswith("error: results.json")
    status, _, errors = program("report", "nothing")
    assert status == 2
    assert "'nothing'" in errors


def test_results_of_another_machine_are_added(program, tmp_path):
    for folder, seeds in (("there", 3), ("runs", 2)):
        write_qm9(tmp_path / folder, seeds)
        program("report", folder, "--out", f"of {folder}")
    other = "of there/results.json"
    assert program("report", "--join", other, "--out", "joined")[0] == 0
    joined = json.loads((tmp_path / "joined/results.json").read_text())
    assert joined["tables"] == json.loads((tmp_path / other).read_text())["tables"]
    status, _, errors = program("report", other, "--join", other)
    assert status == 2
    assert "--join" in errors
    status, _, errors = program("report", "--join", "nothing.json")
    assert status == 2
    assert "nothing.json" in errors
