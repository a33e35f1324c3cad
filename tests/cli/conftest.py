import pytest

from fullrank.cli.main import main


@pytest.fixture
def program(tmp_path, monkeypatch, capsys):
    """Run the program in an empty folder; returns status, output and errors."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return ended.value.code or 0, output.out, " ".join(output.err.split())

    return command
