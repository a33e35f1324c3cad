from pathlib import Path

import pytest

from fullrank.bench.expressiveness import (
    Result,
    Row,
    bound,
    contestants,
    measure,
    setup,
)
from fullrank.lab import load_suite
from shared_data import shared_data

RESULTS = Path(__file__).parents[2] / "docs" / "results"
BY_NAME = {contestant.name: contestant for contestant in contestants()}


@pytest.mark.parametrize("name", ["GIN-0", "GCN", "GAT", "PNA", "ExpC-4", "CombC"])
def test_features_alone_stay_within_1wl(name):
    for suite in map(load_suite, ("classic", "csl")):
        row = measure(BY_NAME[name], suite, relabelings=2)
        assert row.count == bound(suite).count == 0
        assert row.copies_told_apart == 0


@pytest.mark.parametrize(
    ("level", "cycles", "molecules", "srg", "cfi", "csl"),
    [
        ("degrees", 0, 0, 0, 0, 0),
        ("1 hop, v marked", 1, 0, 0, 1, 9),
        ("1 hop", 1, 0, 10, 1, 9),
        ("2 hops, v marked", 2, 1, 0, 2, 30),
        ("2 hops", 2, 1, 10, 2, 30),
        ("3 hops", 3, 1, 10, 3, 44),
        ("whole, v marked", 4, 1, 0, 2, 45),
        ("whole", 4, 1, 10, 3, 45),
    ],
)
def test_structure_goes_beyond(level, cycles, molecules, srg, cfi, csl):
    """Two cycles of 3, 5, 7 and 9 nodes differ from one of twice the length as soon as
    the hops reach around. One marked node is bounded by 3-WL, which confuses strongly
    regular graphs of equal parameters; two are bounded by 4-WL, which confuses the CFI
    graphs over K₅."""
    contestant = BY_NAME[f"ExpC-4 + {level}"]
    classic = measure(contestant, load_suite("classic"), relabelings=2)
    assert classic.told_apart == {
        "cycles": cycles,
        "molecules": molecules,
        "srg": srg,
        "cfi": cfi,
    }
    skips = measure(contestant, load_suite("csl"), relabelings=2)
    assert skips.count == csl
    assert classic.copies_told_apart == skips.copies_told_apart == 0


def test_whole_graph_in_combc():
    row = measure(BY_NAME["CombC + whole"], load_suite("csl"), relabelings=2)
    assert row.told_apart == row.pairs == {"csl": 45}
    assert (row.copies, row.copies_told_apart) == (9, 0)


def test_sr25_with_and_without_the_second_mark():
    suite = load_suite("sr25", shared_data() / "expressiveness")
    for contestant in contestants():
        row = measure(contestant, suite, relabelings=2)
        assert row.count == (
            105 if contestant.name.endswith(("hop", "hops", "whole")) else 0
        )
        assert row.copies_told_apart == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "brec", "exp", "graph8c"),
    [("2 hops", 280, 600, 312), ("whole", 324, 600, 312)],
)
def test_large_suites(level, brec, exp, graph8c):
    for name, told in {"brec": brec, "exp": exp, "graph8c": graph8c}.items():
        suite = load_suite(name, shared_data() / "expressiveness")
        row = measure(BY_NAME[f"ExpC-4 + {level}"], suite, relabelings=4)
        assert row.count == told
        assert row.copies_told_apart == 0


def test_the_committed_table_is_made_from_the_committed_rows():
    text = (RESULTS / "expressiveness.json").read_text(encoding="utf-8")
    result = Result.from_json(text)
    assert result.to_json() == text
    table = (RESULTS / "expressiveness.md").read_text(encoding="utf-8")
    assert result.to_markdown() == table
    assert {row.model for row in result.rows} == {"1-WL, exactly", *BY_NAME}


def test_rows_are_written_and_read_again(tmp_path):
    rows = [bound(load_suite("csl"))]
    rows += [
        Row("ours", suite, told, pairs, 1, 10, 3, 0.5)
        for suite, told, pairs in [
            ("csl", {"csl": 45}, {"csl": 45}),
            ("brec", {"basic": 59, "cfi": 2}, {"basic": 60, "cfi": 100}),
        ]
    ]
    result = Result(setup(), rows)
    result.save(tmp_path / "results" / "csl-0.2")
    written = (tmp_path / "results" / "csl-0.2.json").read_text(encoding="utf-8")
    assert Result.from_json(written) == result
    text = (tmp_path / "results" / "csl-0.2.md").read_text(encoding="utf-8")
    assert "| BREC | basic (60) | cfi (100) | all (160) |" in text
    assert "| ours | 59 | 2 | 61 |" in text
    assert "| I²-GNN (the best published GNN) |  |  | 281 |" in text
    assert (
        "| Pairs told apart | csl (45) | brec (160) | copies told apart (20) |" in text
    )
    assert "| 1-WL, exactly | 0 |  | 0 |" in text
    assert "| ours | 45 | 61 | 2 |" in text
    assert "relabeled: csl 3 times; brec 3 times." in text
