import numpy as np
import pytest

from browser import drawn, loaded_from_elsewhere, opened
from fullrank import load
from fullrank.report.run_page import write_run_page
from fullrank.train import run_experiment
from train.samples import small_config, write_molecules

pytestmark = pytest.mark.usefixtures("one_thread")


def page_of(tmp_path, **sections):
    """The page of a small experiment, and its summary."""
    config = small_config(tmp_path, **sections)
    with (tmp_path / "molecules.csv").open("a") as table:
        table.write("not<a>molecule,1,1,1,1,chain\n")
    dataset = config.load_data()
    summary = run_experiment(config, dataset)
    page = write_run_page(config.runs / summary.experiment, dataset)
    return page, summary


def look(page, profile, figures):
    """Open a page as a person does: all figures are there, and nothing comes from
    elsewhere.

    Returns:
        The number of molecules that are drawn, and the traces of the first figure.
    """
    with opened(page, profile) as browser:
        boxes = drawn(browser, figures)
        assert all(width > 300 and height > 300 for width, height in boxes)
        assert loaded_from_elsewhere(browser) == []
        return browser.execute_script(
            "return [document.querySelectorAll('figure figure svg').length,"
            " document.querySelector('.js-plotly-plot').data]"
        )


def test_regression(tmp_path):
    page, summary = page_of(tmp_path, ensemble=2, split={"calibration": 20})
    text = page.read_text(encoding="utf-8")
    assert f"{summary.test['mae'].mean:.4g}</td>" in text  # of both together
    assert "not&lt;a&gt;molecule" in text  # the rejected row
    assert "kind: random" in text
    assert "20 calibration" in text
    assert "hidden: 8" in text
    assert str(tmp_path) not in text
    # Predicted against true, residuals, curves; every test molecule is drawn.
    molecules, (band, *_) = look(page, tmp_path / "profile", 3)
    assert molecules == 8
    # The band is the interval of both together, around the diagonal.
    (width,) = load(page.parent).half_widths(90)
    below, above = band["y"][:2], band["y"][:1:-1]
    np.testing.assert_allclose(below, np.array(band["x"][:2]) - width)
    np.testing.assert_allclose(above, np.array(band["x"][:2]) + width)
    covered = summary.test["coverage_90"].mean
    assert f"{covered:.1%}" in band["name"]


@pytest.mark.parametrize(
    ("targets", "task", "figures"),
    [(["ring", "hetero"], "binary", 5), (["kind"], "multiclass", 1)],
)
def test_classification(tmp_path, targets, task, figures):
    write_molecules(tmp_path / "molecules.csv", repeat=3)
    split = {"apart": True}  # or a part might lack a class
    page, _ = page_of(tmp_path, targets=targets, task=task, split=split)
    assert look(page, tmp_path / "profile", figures)[0] == 12
    if task == "multiclass":
        assert "<th>aromatic</th><th>chain</th><th>ring</th>" in page.read_text()


def test_folds_have_results_and_curves(tmp_path):
    split = {"kind": "fair", "folds": 2}
    page, _ = page_of(tmp_path, targets=["kind"], task="multiclass", split=split)
    assert "fold 1" in page.read_text()
