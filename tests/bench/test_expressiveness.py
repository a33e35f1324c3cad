from dataclasses import replace
from pathlib import Path

import networkx as nx
import pytest

from fullrank.bench import expressiveness
from fullrank.bench.expressiveness import (
    NOT_MEASURED,
    Parts,
    Result,
    Row,
    bound,
    contestants,
    measure,
    setup,
    split,
)
from fullrank.errors import DataError
from fullrank.lab import PairSuite, cfi_pair, load_suite
from fullrank.lab.graphs.families import rook_graph, shrikhande_graph
from fullrank.nn import network_names
from fullrank.train.estimators import ESTIMATORS
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
    "name", ["GIN-0 + virtual node", "DeeperGCN", "DiffPool", "CapsGNN", "MPNN"]
)
def test_networks_within_1wl(name):
    row = measure(BY_NAME[name], load_suite("classic"), relabelings=2)
    assert row.count == row.copies_told_apart == 0


def test_networks_beyond_1wl():
    """PPGN is as strong as 3-WL, which confuses strongly regular graphs of equal
    parameters; local neighbourhoods of triples, as in the 1-2-3-GNN, see beyond that.
    PATCHY-SAN orders nodes, but reads their features only, which are all alike."""
    classic = load_suite("classic")
    rows = {
        name: measure(BY_NAME[name], classic, relabelings=2)
        for name in ("PPGN", "1-2-3-GNN", "PATCHY-SAN")
    }
    assert all(row.copies_told_apart == 0 for row in rows.values())
    assert rows["PPGN"].told_apart == {"cycles": 4, "molecules": 1, "srg": 0, "cfi": 2}
    assert rows["1-2-3-GNN"].told_apart["srg"] > 0
    assert rows["PATCHY-SAN"].told_apart["srg"] == 0


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
        ("whole, 3 marks", 4, 1, 10, 5, 45),
    ],
)
def test_structure_goes_beyond(level, cycles, molecules, srg, cfi, csl):
    """Two cycles of 3, 5, 7 and 9 nodes differ from one of twice the length as soon as
    the hops reach around. One marked node is bounded by 3-WL, which confuses strongly
    regular graphs of equal parameters; two are bounded by 4-WL, which confuses the CFI
    graphs over K₅, and three tell those apart, too."""
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


def test_continuous_structure_goes_beyond_1wl():
    """Walks and rings see cycles, but nothing in strongly regular graphs."""
    contestant = BY_NAME["ExpC-4 + continuous"]
    classic = measure(contestant, load_suite("classic"), relabelings=2)
    assert classic.told_apart == {"cycles": 4, "molecules": 1, "srg": 0, "cfi": 2}
    assert measure(contestant, load_suite("csl"), relabelings=2).count == 45
    assert classic.copies_told_apart == 0


def test_whole_graph_in_combc():
    row = measure(BY_NAME["CombC + whole"], load_suite("csl"), relabelings=2)
    assert row.told_apart == row.pairs == {"csl": 45}
    assert (row.copies, row.copies_told_apart) == (9, 0)


@pytest.mark.slow
def test_sr25_with_and_without_the_second_mark():
    suite = load_suite("sr25", shared_data() / "expressiveness")
    for contestant in contestants():
        row = measure(contestant, suite, relabelings=2)
        assert row.copies_told_apart == 0
        if contestant.network in ("k-gnn", "patchy-san"):
            continue  # connected triples and canonical orders are beyond 3-WL
        assert row.count == (
            105 if contestant.name.endswith(("hop", "hops", "whole", "marks")) else 0
        )


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
    assert {row.model for row in result.rows} <= {"1-WL, exactly", *BY_NAME}


def test_every_model_is_measured_or_the_table_says_why_not():
    measured = {contestant.network for contestant in contestants()}
    others = {*network_names(), *ESTIMATORS} - measured
    assert others == {name.lower() for name in NOT_MEASURED}


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
    assert "| I²-GNN (the best GNN in the BREC paper) |  |  | 281 |" in text
    assert (
        "| Pairs distinguished | csl (45) | brec (160) | copies distinguished (20) |"
        in text
    )
    assert "| 1-WL, exactly | 0 |  | 0 |" in text
    assert "| ours | 45 | 61 | 2 |" in text
    assert "relabeled: csl 3 times; brec 3 times." in text


def small_brec():
    """Two pairs that two marks distinguish and one that needs three, named as BREC."""
    classes = [
        ("srg", [rook_graph(4), shrikhande_graph()]),
        ("cycles", cfi_pair(nx.cycle_graph(4))),
        ("cfi", cfi_pair(nx.complete_graph(5))),
    ]
    return PairSuite.from_classes("brec", classes)


def test_parts_are_measured_once_and_in_any_process(tmp_path, monkeypatch):
    monkeypatch.setitem(expressiveness.PAIRS_AT_ONCE, "brec", 2)
    suite, contestant = small_brec(), BY_NAME["ExpC-4 + whole"]
    first, second = split(suite)
    kept = Parts(relabelings=2, folder=tmp_path)
    part = kept.get(contestant, suite, second)
    assert (part.pairs, part.told_apart, part.measured) == ([2], [False], 1)
    again = Parts(relabelings=2, folder=tmp_path)
    row = measure(contestant, suite, parts=again)
    assert row.told_apart == {"srg": 1, "cycles": 1, "cfi": 0}
    assert again.get(contestant, suite, second) == part
    assert again.get(contestant, suite, first).seconds <= row.seconds
    assert (row.copies, row.copies_told_apart, row.measured) == (3, 0, None)


def test_a_further_mark_is_measured_where_it_may_matter():
    suite = small_brec()
    two = BY_NAME["ExpC-4 + whole"]
    three = replace(BY_NAME["ExpC-4 + whole, 3 marks"], after=two)
    row = measure(three, suite, relabelings=2)
    assert row.told_apart == row.pairs == {"srg": 1, "cycles": 1, "cfi": 1}
    assert (row.measured, row.copies, row.copies_told_apart) == (1, 1, 0)
    before = measure(two, suite, relabelings=2)
    text = Result(setup(), [before, row]).to_markdown()
    assert "copies (brec 1 of 3)" in text
    assert "copies distinguished (3)" in text


def test_earlier_rows_keep_their_commit():
    suite = load_suite("csl")
    told = {"csl": 45}
    before = Result(
        replace(setup(), commit="abc"),
        [bound(suite), Row("CombC", "csl", told, told), Row("GAT", "csl", told, told)],
    )
    now = Row("GAT", "csl", {"csl": 0}, told)
    rows = Result(setup(), [now]).joined(before).rows
    assert [(row.model, row.count, row.commit) for row in rows] == [
        ("1-WL, exactly", 0, "abc"),
        ("GAT", 0, None),
        ("CombC", 45, "abc"),
    ]
    text = Result(setup(), rows).to_markdown()
    assert "commit abc: 1-WL, exactly (csl); CombC (csl)." in text


def test_what_is_no_table_is_refused(tmp_path):
    file = tmp_path / "rows.json"
    for text in ("[1]", "{}", "no JSON", '{"provenance": {}, "rows": [{}]}'):
        file.write_text(text)
        with pytest.raises(DataError, match=r"rows\.json"):
            Result.read(file)
    with pytest.raises(DataError, match="nowhere"):
        Result.read(tmp_path / "nowhere")
