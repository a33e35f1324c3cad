import contextlib
import json
import statistics
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fullrank.errors import RunError
from fullrank.paper.join import JoinedRuns
from fullrank.paper.record import read_record, rounded
from fullrank.paper.results import make_record
from fullrank.report.reproduction import markdown_of, page_of
from paper.samples import runs_for, write_run

COMMITTED = Path(__file__).parents[2] / "docs" / "results" / "results.json"
FORMAT_1 = Path(__file__).with_name("results_format_1.json")
CELL = ("ablation-qm9", "small", "ExpC-4", "qm9/mu")


def cell_of(record, name, scale, row, column, protocol="split"):
    (table,) = (t for t in record.tables if (t.name, t.scale) == (name, scale))
    return table.cell(row, column, protocol)


def record_of(folder, values):
    """A document, written and read again, of runs with these errors by seed."""
    folder.mkdir()
    for run in runs_for("ablation-qm9", "small", folder, ["ExpC-4", "mu"], 4):
        if run.seeds[0] in values:
            write_run(run, "mae", 0.5 * values[run.seeds[0]], values[run.seeds[0]])
    make_record(folder).write(folder / "results.json")
    return read_record(folder / "results.json")


def contains(new, old):
    """Whether everything in one JSON value is also in a newer one."""
    if isinstance(old, dict):
        return all(key in new and contains(new[key], old[key]) for key in old)
    if isinstance(old, list):
        return len(new) == len(old) and all(map(contains, new, old))
    return new == old


@pytest.mark.parametrize(("file", "version"), [(FORMAT_1, 1), (COMMITTED, 3)])
def test_committed_results_stay_readable(file, version, tmp_path):
    record = read_record(file)
    assert page_of(record)
    record.write(tmp_path / "results.json")
    assert read_record(tmp_path / "results.json") == record
    before = json.loads(file.read_text())
    after = json.loads((tmp_path / "results.json").read_text())
    assert (before.pop("format"), after["format"]) == (version, 3)
    assert contains(after, before)


def test_format_2_has_no_verdicts_of_balanced_networks(tmp_path):
    values = json.loads(COMMITTED.read_text()) | {"format": 2}
    for claim in values["claims"]:
        claim.pop("balanced")
    file = tmp_path / "results.json"
    file.write_text(json.dumps(values))
    assert all(claim.balanced is None for claim in read_record(file).claims)


def test_the_committed_tables_show_the_committed_results():
    assert markdown_of(read_record(COMMITTED)) == (
        COMMITTED.with_suffix(".md").read_text()
    )


def test_the_runs_behind_a_cell_of_format_1():
    fair = cell_of(
        read_record(FORMAT_1), "baselines-ogb-tu", "paper", "ExpC-s", "MUTAG", "fair"
    )
    known = list(fair.known_runs())
    # Ten folds are listed; they were run with each s that was tried.
    assert {(run.s, run.fold) for run in known} == {
        (s, fold) for s in (3, 4, 5) for fold in range(10)
    }
    assert len(known) == fair.done == 30
    untried = fair.model_copy(update={"note": "s = 4, 5 not run yet; more"})
    assert untried.untried == [4, 5]
    assert {run.s for run in untried.known_runs()} == {3}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", "line 1"),
        ("[]", "format"),
        ("{}", "format"),
        ('{"format": 1}', "fullrank"),
        ('{"format": 99}', "99"),
        ('{"format": [1]}', "[1]"),
    ],
)
def test_what_is_not_a_record(tmp_path, content, named):
    file = tmp_path / "results.json"
    file.write_text(content)
    with pytest.raises(RunError) as error:
        read_record(file)
    assert str(file) in str(error.value)
    assert named in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    for path in (tmp_path, tmp_path / "nothing.json"):
        with pytest.raises(RunError) as error:
            read_record(path)
        assert str(path) in str(error.value)


@st.composite
def damages(draw):
    """A place in the committed document, and a value of another kind for it."""
    value, path = json.loads(COMMITTED.read_text()), []
    while isinstance(value, dict | list) and value:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        path.append(draw(st.sampled_from(keys)))
        value = value[path[-1]]
        if draw(st.integers(0, 9)) == 0:
            break
    other = [{"a": 1}, [[]], "text", None, -1, 0.5, "\x00"]
    return path, draw(st.sampled_from(other))


@settings(max_examples=50)
@given(damages())
def test_a_damaged_record_is_refused_or_still_makes_a_page(tmp_path_factory, damage):
    path, value = damage
    document = json.loads(COMMITTED.read_text())
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    file = tmp_path_factory.mktemp("damaged") / "results.json"
    file.write_text(json.dumps(document))
    with contextlib.suppress(RunError):  # anything else would be a bug
        record = read_record(file)
        markdown_of(record)
        JoinedRuns([record])


@given(st.floats())
def test_points_of_curves_are_json(value):
    point = rounded(value)
    assert json.loads(json.dumps(point, allow_nan=False)) == point
    assert point is None or point == pytest.approx(value, rel=1e-4)


def test_seeds_run_on_two_machines_are_one_cell_as_if_run_on_one(tmp_path):
    there = record_of(tmp_path / "there", {0: 1.0, 3: 4.0})
    record_of(tmp_path / "here", {1: 2.0})
    joined = cell_of(make_record(tmp_path / "here", [there]), *CELL)
    together = cell_of(record_of(tmp_path / "one", {0: 1.0, 1: 2.0, 3: 4.0}), *CELL)
    assert joined == together
    assert joined.std == pytest.approx(statistics.stdev([1.0, 2.0, 4.0]))
    assert joined.curves["valid"][0] == pytest.approx(0.5 * 7 / 3, rel=1e-4)


@pytest.mark.parametrize(
    ("here", "there", "kept"),
    [
        ({0: 1.0}, {0: 9.0}, {0: 1.0}),
        ({0: 1.0}, {0: 9.0, 1: 2.0}, {0: 9.0, 1: 2.0}),
        ({}, {2: 3.0}, {2: 3.0}),
    ],
)
def test_where_seeds_are_shared_the_cell_with_more_runs_counts(
    tmp_path, here, there, kept
):
    other = record_of(tmp_path / "there", there)
    record_of(tmp_path / "here", here)
    assert cell_of(make_record(tmp_path / "here", [other]), *CELL).by_seed == kept


def test_folds_are_not_mixed(tmp_path):
    for folder, seed in (("here", 0), ("there", 1)):
        only = ["GIN", "MUTAG", "fair"]
        for run in runs_for("baselines-ogb-tu", "small", tmp_path / folder, only, 2):
            if run.seeds[0] == seed:
                write_run(run, "accuracy", 0.5, 0.6 + 0.1 * seed)
    other = make_record(tmp_path / "there")
    cell = cell_of(
        make_record(tmp_path / "here", [other]),
        *("baselines-ogb-tu", "small", "GIN", "MUTAG", "fair"),
    )
    assert cell.by_seed == {0: pytest.approx(60.0)}


def test_a_choice_between_more_s_counts_before_more_seeds(tmp_path):
    for folder, seeds, scores in (
        ("here", 2, {16: 0.1, 32: 0.2, 8: 0.3}),
        ("there", 3, {4: 0.5}),
    ):
        for s, score in scores.items():
            only = ["ExpC-s", "mu"]
            args = ("baselines-qm9", "small", tmp_path / folder, only, seeds, s)
            for run in runs_for(*args):
                write_run(run, "mae", score, score)
    here, there = tmp_path / "here", tmp_path / "there"
    place = ("baselines-qm9", "small", "ExpC-s", "qm9/mu")
    for first, second in ((here, there), (there, here)):
        joined = make_record(first, [make_record(second)])
        assert cell_of(joined, *place).s == 16


def test_seeds_on_other_data_are_not_mixed(tmp_path):
    there = record_of(tmp_path / "there", {0: 1.0, 3: 4.0})
    here = cell_of(record_of(tmp_path / "here", {1: 2.0}), *CELL)
    other = cell_of(there, *CELL)
    runs = [run.model_copy(update={"data": "other content"}) for run in other.runs]
    joined = here.joined(other.model_copy(update={"runs": runs}))
    assert joined.by_seed == {0: 1.0, 3: 4.0}
