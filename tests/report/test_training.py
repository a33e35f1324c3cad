import pytest

from browser import drawn, loaded_from_elsewhere, opened
from fullrank.errors import RunError
from fullrank.report.training import write_training_report
from fullrank.train import RunFolder, run_one
from train.samples import small_config


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    return {
        name: run_one(small_config(home, model={"conv": conv}))
        for name, conv in (("GIN-0", "gin0"), ("<ExpC>", "expc"))
    }


def test_the_page_has_the_numbers_of_the_runs(runs, tmp_path):
    page = tmp_path / "page.html"
    extra = {"verdict": {"GIN-0": "so", "<ExpC>": "so-so"}}
    write_training_report(page, "Two models", runs, extra)
    text = page.read_text(encoding="utf-8")
    assert "<ExpC>" not in text.replace("&lt;ExpC&gt;", "")
    for name, run in runs.items():
        result = run.result
        row = text[
            text.index(f"<td>{name.replace('<', '&lt;').replace('>', '&gt;')}") :
        ]
        row = row[: row.index("</tr>")]
        for cell in (
            f"{result.test['mae']:.5f}",
            f"{result.valid['mae']:.5f}",
            str(result.best_epoch + 1),
            f"{result.parameters:,}",
            extra["verdict"][name],
        ):
            assert f"<td>{cell}</td>" in row
        assert run.id in text
    counts = next(iter(runs.values())).result.graphs
    assert f"{counts['train']:,} training" in text
    with opened(page, tmp_path / "profile") as browser:
        drawn(browser, 1)
        assert loaded_from_elsewhere(browser) == []


def test_a_run_that_is_not_finished(runs, tmp_path):
    with pytest.raises(RunError, match="nothing"):
        write_training_report(
            tmp_path / "page.html", "", {"a": RunFolder(tmp_path / "nothing")}
        )
