"""``fullrank data`` as a person runs it."""

import zipfile

import numpy as np
import pytest

from data.tu_samples import archive, small
from fullrank.cli.data import _binned
from fullrank.cli.main import main
from fullrank.data.sources import SOURCES


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the program in an empty folder; returns status, output and errors."""
    monkeypatch.setenv("FULLRANK_ROOT", str(tmp_path / "root"))
    monkeypatch.delenv("FULLRANK_MIRROR", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str):
        with pytest.raises(SystemExit) as ended:
            main(["data", *arguments])
        output = capsys.readouterr()
        return ended.value.code, output.out, " ".join(output.err.split())

    return command


@pytest.fixture
def mirror(tmp_path):
    """A folder that holds a small set under the name of MUTAG."""
    small(tmp_path / "mirror" / "MUTAG", name="MUTAG")
    return str(tmp_path / "mirror")


def prepared_file(tmp_path):
    return next((tmp_path / "root").glob("MUTAG-*/src.bin"))


def test_prepare_describe_list_verify(run, mirror):
    status, output, _ = run("prepare", "MUTAG", "--mirror", mirror)
    assert (status, output.strip()) == (0, "MUTAG: 2 graphs")
    _, output, _ = run("describe", "MUTAG", "--mirror", mirror)
    for fact in ("2.50", "2.00 (undirected)", "accuracy", "4 float", "█"):
        assert fact in output
    _, output, _ = run("list")
    lines = {line.split()[0]: line for line in output.splitlines() if line.strip()}
    assert lines["MUTAG"].rstrip().endswith("MB")
    assert lines["NCI1"].rstrip().endswith("-")
    status, output, _ = run("verify", "MUTAG")
    assert status == 0


def test_verify_finds_a_changed_byte(run, tmp_path, mirror):
    run("prepare", "MUTAG", "--mirror", mirror)
    file = prepared_file(tmp_path)
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)
    status, _, error = run("verify", "MUTAG")
    assert status == 2
    assert "src.bin" in error


def test_truncated_set_is_prepared_again(run, tmp_path, mirror):
    run("prepare", "MUTAG", "--mirror", mirror)
    file = prepared_file(tmp_path)
    file.write_bytes(file.read_bytes()[:10])
    assert run("prepare", "MUTAG", "--mirror", mirror)[0] == 0
    assert run("verify", "MUTAG")[0] == 0


@pytest.mark.parametrize("verb", ["prepare", "describe", "table"])
def test_every_option_of_every_source_has_a_flag(run, verb):
    status, output, _ = run(verb, "--help")
    assert status == 0
    for source in SOURCES:
        for option in set(source.model_fields) - {"kind", "name", "structure", "units"}:
            assert f"--{option.replace('_', '-')}" in output


def test_a_set_as_a_table(run, tmp_path):
    (tmp_path / "in.csv").write_text("smiles,a,part\nCCO,1.5,train\nCC,,test\n")
    options = ("--target", "a", "--split-column", "part", "--columns", "b")
    status, output, _ = run("table", "in.csv", "-o", "out.csv", *options)
    assert (status, output.strip()) == (0, "in: 2 rows in out.csv")
    written = (tmp_path / "out.csv").read_text().split()
    assert written == ["smiles,b,split", "CCO,1.5,train", "CC,,test"]


def test_flags_reach_the_source(run):
    _, output, _ = run("describe", "qm9", "--limit", "5", "--distance", "false")
    assert "4 float: single, double, triple, aromatic" in output
    _, output, _ = run("describe", "qm9", "--limit=5", "--target=mu", "--target=U0")
    assert [name in output for name in ("mu", "U0", "zpve")] == [True, True, False]


@pytest.mark.parametrize(
    ("values", "labels", "counts"),
    [
        ([3, 4, 4, 6], ["3", "4", "5", "6"], [1, 2, 0, 1]),
        (range(20), [f"{i}–{i + 1}" for i in range(0, 20, 2)], [2] * 10),
        (
            [1] * 9 + [2, 30],
            ["1", "2", "3–4", "5–8", "9–16", "17–30"],
            [9, 1, 0, 0, 0, 1],
        ),
    ],
)
def test_histograms_cover_every_value(values, labels, counts):
    found = _binned(np.array(values))
    assert (found[0], found[1].tolist()) == (labels, counts)


def test_own_python_code(run, tmp_path):
    (tmp_path / "code" / "project").mkdir(parents=True)
    (tmp_path / "code" / "project" / "a.py").write_text("def get_it(x): return x\n")
    status, output, _ = run("describe", "code")
    assert status == 0
    assert "tokens, measured by f1" in output
    assert "directed" in output


def test_own_molecules(run, tmp_path):
    (tmp_path / "mine.csv").write_text("smiles,y\nCCO,1\nC1CC,2\nCC,x\nN,4\n")
    assert "columns smiles, y" in run("describe", "mine.csv")[2]
    status, output, _ = run("describe", "mine.csv", "--target", "y")
    assert status == 0
    assert "rejected: 2 (row 3: the SMILES 'C1CC' cannot be parsed" in output
    rows = (tmp_path / "mine.rejected.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["row", "3", "4"]
    status, output, _ = run("verify", "mine.csv")
    assert status == 0
    assert "root/mine-" in output
    assert "no option 'limit'" in run("describe", "mine.csv", "--limit", "3")[2]


def test_names_are_shown_as_they_are(run, tmp_path):
    small(tmp_path / "set", name="my[bold]set")
    assert run("prepare", "set")[1].strip() == "my[bold]set: 2 graphs"


def test_more_than_half_rejected_must_be_allowed(run, tmp_path):
    (tmp_path / "mine.csv").write_text('smiles,y\nCCO,1\nCC,"2,5"\nC,"3,5"\n')
    status, _, error = run("prepare", "mine.csv", "--target", "y")
    assert status == 2
    assert "2 of 3 rows (67%)" in error
    assert run("prepare", "mine.csv", "--target", "y", "--allow-rejected")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "MUTAGG"], "no data set and no folder 'MUTAGG' (did you mean 'M"),
        (["verify", "MUTAG"], "'MUTAG' is not prepared"),
        (["prepare", "MUTAG", "--mirror", "."], "none of MUTAG.zip"),
        (["prepare", "MUTAG", "--split-column", "y"], "no option 'split_column'"),
        (["prepare", "qm9", "--limit", "0"], "limit is '0'"),
        (["prepare", "absent.csv", "--target", "y"], "absent.csv"),
        (["verify", "absent.csv"], "'absent.csv' is not prepared"),
        (["prepare", "folder.csv"], "Is a directory"),
        (["prepare", "ogbg-code"], "withdrawn"),
    ],
)
def test_what_the_user_got_wrong_is_one_sentence(run, tmp_path, arguments, message):
    (tmp_path / "folder.csv").mkdir()
    status, _, error = run(*arguments)
    assert status == 2
    assert error.startswith("error: ")
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize("damage", ["not a zip", "outside"])
def test_bad_archives_leave_nothing_behind(run, tmp_path, damage):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    if damage == "outside":
        archive(mirror / "MUTAG.zip", small(tmp_path / "set", name="MUTAG"))
        with zipfile.ZipFile(mirror / "MUTAG.zip", "a") as writer:
            writer.writestr("../evil.txt", "evil")
    else:
        (mirror / "MUTAG.zip").write_text("not a zip")
    status, _, error = run("prepare", "MUTAG", "--mirror", str(mirror))
    assert status == 2
    assert "MUTAG.zip" in error
    left = [f.name for f in (tmp_path / "root").iterdir() if f.suffix != ".lock"]
    assert left == []
    assert not (tmp_path / "evil.txt").exists()
