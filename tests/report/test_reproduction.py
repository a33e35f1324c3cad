import re

import pytest

from browser import drawn, loaded_from_elsewhere, opened
from fullrank.paper.record import Verdict, read_record
from fullrank.paper.results import make_record
from fullrank.report.reproduction import markdown_of, write_reproduction
from paper.samples import runs_for, write_qm9, write_run


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    write_qm9(runs)
    only = ["GIN", "MUTAG", "fair"]
    for run in runs_for("baselines-ogb-tu", "small", runs, only)[:2]:
        write_run(run, "accuracy", 0.7, 0.7)
    return make_record(runs)


@pytest.fixture(scope="module")
def page(record, tmp_path_factory):
    return write_reproduction(tmp_path_factory.mktemp("page"), record)


def row_of(markdown, section, row):
    """The cells of a row of a Markdown table, by column."""
    part = markdown[re.search(rf"^## .*{section}", markdown, re.M).end() :]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    columns = [cell.strip() for cell in lines[0].split("|")[1:-1]]
    for line in lines[2:]:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells[0].split("<br>")[0].split(" (")[0] == row:
            return dict(zip(columns, cells, strict=True))
    raise AssertionError(row)


def test_ours_stand_beside_the_published_with_the_best_marked(record):
    text = markdown_of(record)
    # 1.1 * 0.8 * 1.01 with a deviation of 1.1 * 0.8 * 0.01.
    four = row_of(text, "ablation-qm9", "ExpC-4")["qm9/mu"]
    assert four == "0.8888 ± 0.0088<br>paper 0.413<br><sub>3 seeds</sub>"
    best = row_of(text, "ablation-qm9", "ExpC-16")["qm9/mu"]
    assert best.startswith("**0.5555 ± 0.0055**<br>paper 0.382")


def test_what_is_missing_says_so(record):
    text = markdown_of(record)
    assert row_of(text, "ablation-qm9", "ExpC-4")["qm9/H"] == "missing<br>paper 0.0178"
    dtnn = row_of(text, "baselines-qm9", "DTNN")
    assert dtnn["qm9/mu"] == "missing<br>paper 0.244"
    himp = row_of(text, "baselines-ogb-tu", "HIMP")
    assert himp["COLLAB · fair"] == ""  # not a set of molecules
    assert himp["ogbg-molhiv"].startswith("missing<br>paper")
    assert "78.80 ± 0.82" in himp["ogbg-molhiv"]
    gin = row_of(text, "baselines-ogb-tu", "GIN")
    assert gin["MUTAG · fair"] == "missing<br><sub>2 of 3 runs done</sub>"
    # Published numbers are by the protocol gin.
    assert gin["COLLAB · gin"] == "missing<br>paper 80.20 ± 1.90"
    assert gin["COLLAB · fair"] == "missing"


def test_the_chosen_s_is_shown(record):
    cell = row_of(markdown_of(record), "baselines-qm9", "ExpC-s")["qm9/gap"]
    assert "s = 16 of 4, 8, 16, 32" in cell


def test_claims_with_their_rule_and_numbers(record):
    text = markdown_of(record)
    assert "sign test" in text
    (line,) = (li for li in text.splitlines() if li.startswith("| Four aggregators"))
    _, _, published, ours, _ = (cell.strip() for cell in line.split("|"))
    assert published == "holds<br><sub>11 of 12 pairs, p = 0.0032</sub>"
    assert ours == "holds<br><sub>9 of 9 pairs, p = 0.002</sub>"


def test_the_training_part_is_shown_if_all_runs_have_it(tmp_path):
    for row, known in (("GIN", 3), ("CombC", 2)):
        only = [row, "MUTAG", "fair"]
        for fold, run in enumerate(
            runs_for("baselines-ogb-tu", "small", tmp_path, only)
        ):
            train = 0.8 + 0.01 * fold if fold < known else None
            write_run(run, "accuracy", 0.7, 0.7, train=train)
    text = markdown_of(make_record(tmp_path))
    assert "in evaluation mode" in text
    gin, combc = (row_of(text, "baselines-ogb-tu", row) for row in ("GIN", "CombC"))
    assert "training 81.00" in gin["MUTAG · fair"]
    assert "training" not in combc["MUTAG · fair"]


def test_balanced_networks_have_a_column_once_they_are_run(record):
    def balanced(record, claim):
        return row_of(markdown_of(record), "Claims", claim).get("balanced, scale small")

    four, eight = (record.claims[i].says for i in (0, 1))
    assert balanced(record, four) is None
    won = Verdict(verdict="holds", wins=6, pairs=6, p=1 / 64)
    first = record.claims[0].model_copy(update={"balanced": {"small": won}})
    more = record.model_copy(update={"claims": [first, *record.claims[1:]]})
    assert balanced(more, four) == "holds<br><sub>6 of 6 pairs, p = 0.016</sub>"
    assert balanced(more, eight) == ""  # no balanced networks are planned for it


def test_the_json_says_where_every_number_comes_from(record, page):
    written = read_record(page.parent / "results.json")
    assert written == record
    measured = [c for t in written.tables for c in t.cells if c.mean is not None]
    # Of density-qm9, which has no U0, the two rows of bonds.
    assert len(measured) == 3 * (8 + 4 + 2) + 2 * 2
    for cell in measured:
        assert {run.seed for run in cell.runs} == {0, 1, 2}
        assert all(re.match(r"qm9-\w+-[0-9a-f]+", run.run) for run in cell.runs)


def column(browser, label, index):
    script = """
        const name = `filter ${arguments[0]}`;
        const box = document.querySelector(`input[aria-label="${name}"]`);
        return [...box.closest(".filtered").querySelectorAll("tbody tr")]
            .filter(row => !row.hidden)
            .map(row => row.cells[arguments[1]].innerText.split("\\n")[0].trim());
    """
    return browser.execute_script(script, label, index)


def test_the_page_in_a_browser(page, tmp_path):
    with opened(page, tmp_path / "profile") as browser:
        # Three targets in each of the two figures of the ablation and in two other
        # tables that share runs with it, two targets in a third one.
        drawn(browser, 14)
        assert loaded_from_elsewhere(browser) == []
        label = "ablation-qm9 small"
        before = column(browser, label, 0)
        assert before[0] == "ExpC*-1"
        box = browser.find_element(
            "css selector", f'input[aria-label="filter {label}"]'
        )
        table = box.find_element("xpath", "ancestor::div[@class='filtered']//table")
        heading = table.find_elements("css selector", "th button")[1]
        heading.click()
        by_value = column(browser, label, 0)
        assert (by_value[0], by_value[-1]) == ("ExpC-16", "ExpC*-1")
        heading.click()
        assert column(browser, label, 0) == by_value[::-1]
        box.send_keys("comb")
        assert column(browser, label, 0) == ["CombC*", "CombC"]


def test_missing_cells_stay_at_the_end_whichever_way_a_column_is_sorted(page, tmp_path):
    with opened(page, tmp_path / "profile") as browser:
        label = "baselines-qm9 small"
        box = browser.find_element(
            "css selector", f'input[aria-label="filter {label}"]'
        )
        table = box.find_element("xpath", "ancestor::div[@class='filtered']//table")
        heading = table.find_elements("css selector", "th button")[1]
        for first in ("ExpC-s", "GIN0*"):
            heading.click()
            names = column(browser, label, 0)
            assert names[0] == first
            assert set(names[4:]) == {
                *("DTNN", "MPNN", "k-GNN", "PPGN"),
                *("GCN", "GraphSAGE", "PNA", "DeeperGCN"),
            }


def test_the_page_on_a_phone(page, tmp_path):
    with opened(page, tmp_path / "profile") as browser:
        browser.set_window_size(500, 900)
        browser.refresh()
        assert all(width < 500 for width, _ in drawn(browser, 14))
        overflow = "return document.documentElement.scrollWidth > window.innerWidth"
        assert not browser.execute_script(overflow)
