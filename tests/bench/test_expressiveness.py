import pytest

from fullrank.bench.expressiveness import (
    bound,
    contestants,
    measure,
    provenance,
    to_markdown,
)
from fullrank.lab import load_suite
from shared_data import shared_data

BY_NAME = {contestant.name: contestant for contestant in contestants()}


@pytest.fixture(scope="module")
def suites():
    folder = shared_data() / "expressiveness"
    return {name: load_suite(name, folder) for name in ("sr25", "csl")}


@pytest.mark.parametrize("name", ["GIN-0", "GCN", "GAT", "PNA", "ExpC-4", "CombC"])
def test_features_alone_stay_within_1wl(suites, name):
    for suite in suites.values():
        row = measure(BY_NAME[name], suite, relabelings=2)
        assert sum(row["told_apart"].values()) == 0
        assert row["copies_told_apart"] == 0


@pytest.mark.parametrize(
    ("level", "sr25", "csl"),
    [
        ("degrees", 0, 0),
        ("1 hop, v marked", 0, 9),
        ("1 hop", 105, 9),
        ("2 hops, v marked", 0, 30),
        ("2 hops", 105, 30),
        ("3 hops", 105, 44),
        ("whole, v marked", 0, 45),
        ("whole", 105, 45),
    ],
)
def test_structure_goes_beyond(suites, level, sr25, csl):
    expected = {"sr25": sr25, "csl": csl}
    for name, suite in suites.items():
        row = measure(BY_NAME[f"ExpC-4 + {level}"], suite, relabelings=2)
        assert sum(row["told_apart"].values()) == expected[name]
        assert row["copies_told_apart"] == 0


def test_whole_graph_in_combc(suites):
    row = measure(BY_NAME["CombC + whole"], suites["csl"], relabelings=2)
    assert row["told_apart"] == row["pairs"] == {"csl": 45}
    assert (row["copies"], row["copies_told_apart"]) == (9, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "brec", "exp", "graph8c"),
    [("2 hops", 280, 600, 312), ("whole", 324, 600, 312)],
)
def test_large_suites(level, brec, exp, graph8c):
    for name, told in {"brec": brec, "exp": exp, "graph8c": graph8c}.items():
        suite = load_suite(name, shared_data() / "expressiveness")
        row = measure(BY_NAME[f"ExpC-4 + {level}"], suite, relabelings=4)
        assert sum(row["told_apart"].values()) == told
        assert row["copies_told_apart"] == 0


def test_tables(suites):
    rows = [bound(suites["csl"])]
    rows += [
        {
            "model": "ours",
            "suite": suite,
            "told_apart": told,
            "pairs": pairs,
            "copies_told_apart": 1,
            "copies": 10,
            "relabelings": 3,
        }
        for suite, told, pairs in [
            ("csl", {"csl": 45}, {"csl": 45}),
            ("brec", {"basic": 59, "cfi": 2}, {"basic": 60, "cfi": 100}),
        ]
    ]
    text = to_markdown({"provenance": provenance(), "rows": rows})
    assert "| BREC | basic (60) | cfi (100) | all (160) |" in text
    assert "| ours | 59 | 2 | 61 |" in text
    assert "| I²-GNN (the best published GNN) |  |  | 281 |" in text
    assert (
        "| Pairs told apart | csl (45) | brec (160) | copies told apart (20) |" in text
    )
    assert "| 1-WL, exactly | 0 |  | 0 |" in text
    assert "| ours | 45 | 61 | 2 |" in text
    assert "relabeled: csl 3 times; brec 3 times." in text
