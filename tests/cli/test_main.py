"""The program as its user calls it: real processes, real exit codes."""

import importlib
import inspect
import os
import subprocess
import sys

import pytest

from fullrank import __version__
from fullrank.cli.main import VERBS


def fullrank(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "fullrank", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )


def test_version():
    assert fullrank("--version").stdout == f"fullrank {__version__}\n"


def test_help_names_every_verb():
    shown = fullrank("--help")
    assert shown.returncode == 0
    words = " ".join(shown.stdout.split())
    for verb, sentence in VERBS.items():
        assert f"{verb} {sentence}" in words


LISTS = [
    "--help",
    "data list",
    "models list",
    "models show qm9",
    "train --list",
    "reproduce --list",
]


@pytest.mark.parametrize("arguments", LISTS)
def test_what_only_lists_imports_nothing_slow(arguments):
    code = (
        "import sys; from fullrank.cli.main import main\n"
        f"try: main({arguments.split()})\n"
        "except SystemExit as end: print(end.code, file=sys.stderr)\n"
        "slow = {'torch', 'torch_geometric', 'pandas', 'scipy', 'lightning', 'rdkit'}\n"
        "print(*sorted(slow & sys.modules.keys()), file=sys.stderr)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.stderr.split() == ["0"]


@pytest.mark.parametrize("package", ["typer", "rich", "pydantic"])
def test_a_verb_whose_extra_is_missing_says_which_one(package):
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "sys.argv = ['fullrank', 'data', 'list']\n"
        "from fullrank.__main__ import main; main()"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.returncode == 2
    assert package in shown.stderr
    assert "pip install 'fullrank[program]'" in shown.stderr
    assert "Traceback" not in shown.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb):
    shown = fullrank(verb, "--help")
    assert shown.returncode == 0, shown.stderr
    verbs = vars(importlib.import_module(f"fullrank.cli.{verb}"))
    said = inspect.getdoc(verbs[verb]) if verb in verbs else VERBS[verb]
    assert " ".join(said.split()) in " ".join(shown.stdout.split())


def test_an_unknown_verb_suggests_the_nearest():
    shown = fullrank("benhc")
    assert shown.returncode == 2
    assert "no command 'benhc' (did you mean 'bench'?)" in shown.stderr


def test_errors_are_sentences(tmp_path):
    shown = fullrank("bench", "layers", "--quick", "--json", str(tmp_path / "no" / "x"))
    assert shown.returncode == 2
    assert "Traceback" not in shown.stderr
    assert f"there is no folder {tmp_path / 'no'}" in " ".join(shown.stderr.split())


def test_a_bug_is_shown_as_one(tmp_path, monkeypatch, capsys):
    from fullrank.cli import data, main

    def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(data.console, "print", broken)
    for arguments in (["data", "list"], ["--debug", "data", "list"]):
        with pytest.raises(SystemExit) as ended:
            main.main(arguments)
        assert ended.value.code == 1
        errors = capsys.readouterr().err
        assert "ZeroDivisionError: a bug" in " ".join(errors.split())
        assert ("Traceback" in errors) == ("--debug" in arguments)
    written = list(tmp_path.glob("fullrank-bug-*.txt"))
    assert len(written) == 2
    assert "ZeroDivisionError" in written[0].read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_a_sentence(monkeypatch, capsys):
    from fullrank.cli import data, main

    def fill_the_disk(*_, **__):
        with open("/dev/full", "w") as stream:
            stream.write("something")

    monkeypatch.setattr(data.console, "print", fill_the_disk)
    with pytest.raises(SystemExit) as ended:
        main.main(["data", "list"])
    assert ended.value.code == 2
    assert "bug" not in capsys.readouterr().err
