import pytest
from typer.testing import CliRunner

from fullrank.cli.inspect import app
from shared_data import shared_data


@pytest.fixture
def mutag(tmp_path):
    return [
        "--data",
        "MUTAG",
        "--mirror",
        str(shared_data() / "tu"),
        "--root",
        tmp_path,
    ]


def run(*arguments):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)])


def test_untrained_layers_on_a_real_data_set(mutag, tmp_path):
    page = tmp_path / "pages" / "lab.html"
    layers = ["--conv", "gcn", "--conv", "expc:2", "--conv", "pna"]
    sizes = ["--graphs", 8, "--hidden", 4, "--layers", 2]
    result = run(*layers, *sizes, *mutag, "--out", page)
    assert result.exit_code == 0, result.output
    for model in ("gcn", "expc:2", "pna"):
        assert result.output.count(f"│ {model} ") == 2
    assert "The pictures are in" in result.output
    html = page.read_text(encoding="utf-8")
    assert "untrained, width 4, seed 0), looked at on 8 graphs of MUTAG" in html
    assert html.count("Plotly.newPlot(") >= 2 + 3 * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "needs a run folder, or --conv"),
        (["--conv", "gcn"], "--conv needs a data set"),
        (["some-run", "--conv", "gcn"], "not both"),
        (["--conv", "expc:x", "--data", "MUTAG"], "number after the colon"),
        (["--conv", "gnc", "--data", "MUTAG"], "no such convolution"),
        (["no-such-run"], "no-such-run"),
    ],
)
def test_what_is_asked_wrongly_is_answered_with_a_sentence(arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, ValueError | OSError)
    assert message in str(result.exception)
