"""``fullrank evaluate`` as a person runs it."""

import json

import pytest

from fullrank.cli.main import main
from fullrank.train import run_experiment, runs_of
from fullrank.train.files import read_json
from train.samples import small_config


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    config = small_config(folder, training={"epochs": 1}, seeds=[0, 1])
    run_experiment(config)
    return config


@pytest.fixture
def run(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["evaluate", *map(str, arguments)])
        output = capsys.readouterr()
        return ended.value.code or 0, output.out, output.err

    return command


def test_repeats_the_result_of_a_run(run, trained):
    folder = runs_of(trained)[0].folder
    status, output, _ = run(folder, "--json")
    assert status == 0
    measured = json.loads(output)[str(folder)]
    assert measured == pytest.approx(read_json(folder / "result.json")["test"])
    _, output, _ = run(folder, "--part", "valid")
    assert f"{read_json(folder / 'result.json')['valid']['mae']:.4g}" in output


def test_finds_a_table_from_any_folder(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = small_config(tmp_path, training={"epochs": 1})
    relative = config.changed(data={"name": "molecules.csv"})
    assert relative.id == config.id
    run_experiment(relative)
    folder = config.folder
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run(folder)[0] == 0
    (tmp_path / "molecules.csv").unlink()
    status, _, errors = run(folder)
    assert status == 2
    assert f"there is no file '{tmp_path / 'molecules.csv'}'" in errors


def test_summarises_several(run, trained):
    _, output, _ = run(trained.folder)
    mae = read_json(trained.folder / "summary.json")["test"]["mae"]
    assert f"{mae['mean']:.4g} ± {mae['std']:.2g}" in output


def test_bad_input_is_one_sentence(run, trained, tmp_path):
    folder = runs_of(trained)[0].folder
    for arguments, words in [
        ([tmp_path], "no run folder"),
        ([folder, "--part", "tst"], "'tst'"),
    ]:
        status, _, errors = run(*arguments)
        assert status == 2
        assert words in errors
