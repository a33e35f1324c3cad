import pytest
from typer.testing import CliRunner

from fullrank.cli.inspect import _table, app
from fullrank.errors import ConfigError
from fullrank.train import parse, run_experiment, run_one
from goldens.configs import write_graphs
from train.samples import folder_of, small_config


def run(*arguments, columns=200):
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [*map(str, arguments)])


def test_untrained_layers_on_a_folder_of_graphs(tmp_path):
    graphs = write_graphs(tmp_path / "chords", 20)
    page = tmp_path / "pages" / "lab.html"
    layers = ["--conv", "gcn", "--conv", "expc:2", "--conv", "pna"]
    sizes = ["--graphs", 8, "--hidden", 4, "--layers", 2]
    result = run(*layers, *sizes, "--data", graphs, "--out", page)
    assert result.exit_code == 0, result.output
    words = result.output.split()
    # A row for each layer, and one for all that each model merges.
    assert [words.count(model) for model in ("gcn", "expc:2", "pna")] == [3, 3, 3]
    assert str(page) in result.output.replace("\n", "")
    html = page.read_text(encoding="utf-8")
    assert "untrained, width 4, seed 0)" in html
    assert html.count("Plotly.newPlot(") >= 2 + 3 * 2


def test_a_trained_model_by_its_run_folder(tmp_path):
    graphs = write_graphs(tmp_path / "chords", 20)
    config = parse(
        {
            "data": {"name": str(graphs)},
            "split": {"kind": "gin", "fold": 0},
            "model": {"conv": "expc", "hidden": 8, "layers": 2, "s": 2},
            "training": {"epochs": 1},
            "runs": str(tmp_path / "runs"),
        }
    )
    trained = run_one(config)
    page = tmp_path / "lab.html"
    result = run(trained.path, "--graphs", 8, "--out", page)
    assert result.exit_code == 0, result.output
    assert result.output.split().count("expc") == 2 + 1
    assert f"(the run {trained.id})" in page.read_text(encoding="utf-8")


def test_two_trained_models_side_by_side_on_other_molecules(tmp_path):
    runs = []
    for conv in ("gcn", "expc"):
        config = small_config(tmp_path, training={"epochs": 1}, model={"conv": conv})
        runs.append(run_one(config))
    table = tmp_path / "others.csv"
    table.write_text("smiles\nCCO\nOCC\nCCCCO\nc1ccccc1\n")
    page = tmp_path / "lab.html"
    result = run(
        *(one.path for one in runs), "--data", table, "--root", tmp_path, "--out", page
    )
    assert result.exit_code == 0, result.output
    html = page.read_text(encoding="utf-8")
    for one in runs:
        assert html.count(one.id) > 2
    assert "the same graph" in html
    with_others = run(runs[0].path, "--data", write_graphs(tmp_path / "chords", 4))
    assert isinstance(with_others.exception, ConfigError)


def test_molecules_of_ones_own_need_no_target(tmp_path):
    """At the width of a small terminal no word is cut, and no column is empty."""
    (tmp_path / "mine.csv").write_text("SMI,y\nCCO,1\nCC(C)C,2\nC1CC,3\n")
    layers = ["--conv", "gcn", "--conv", "expc:2", "--conv", "pna", "--conv", "gatv2"]
    where = ["--data", tmp_path / "mine.csv", "--smiles", "SMI", "--root", tmp_path]
    result = run(*layers, *where, "--out", tmp_path / "lab.html", columns=80)
    assert result.exit_code == 0, result.output
    assert "…" not in result.output
    for heading in ("model", "aggregates", "convs.0", "expc:2"):
        assert heading in result.output.split()
    assert not list(tmp_path.glob("*rejected.csv"))


def test_structural_layers_blank_no_other_layer(tmp_path):
    graphs = write_graphs(tmp_path / "chords", 6)
    layers = ["--conv", "gcn", "--conv", "expc-structural"]
    page = tmp_path / "lab.html"
    result = run(*layers, "--data", graphs, "--layers", 1, "--out", page)
    assert result.exit_code == 0, result.output
    for line in result.output.splitlines():
        if "convs.0" in line:
            assert "yes" in line.split() or "no" in line.split()
    assert "Not searched" not in page.read_text(encoding="utf-8")


def test_columns_that_say_nothing_are_left_out():
    rows = [["a", "1", "– (read)"], ["b", "– (not read)", "– (read)"]]
    table = _table(["model", "rank M", "rank J"], rows)
    assert [column.header for column in table.columns] == ["model", "M"]
    assert [list(column.cells) for column in table.columns] == [["a", "b"], ["1", "–"]]


def test_of_several_seeds_the_first_is_shown(tmp_path):
    config = small_config(tmp_path, training={"epochs": 1}, seeds=[3, 4])
    folder = config.runs / run_experiment(config).experiment
    result = run(folder, "--graphs", 4, "--out", tmp_path / "lab.html")
    assert result.exit_code == 0, result.output
    first = folder_of(config.changed(seeds=[3])).id
    assert f"(the run {first})" in (tmp_path / "lab.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--conv"),
        (["--conv", "gcn"], "--conv needs a data set"),
        (["some-run", "--conv", "gcn"], "either"),
        (["--conv", "expc:x", "--data", "MUTAG"], "number after the colon"),
        (["--conv", "gnc", "--data", "MUTAG"], "no such convolution"),
        (["no-such-run"], "no-such-run"),
    ],
)
def test_what_is_asked_wrongly_is_answered_with_a_sentence(arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, ValueError | OSError)
    assert message in str(result.exception)
