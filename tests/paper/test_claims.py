from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullrank.paper.cells import load_table
from fullrank.paper.claims import claims, judge, judge_published, sign_test
from fullrank.paper.published import Number
from fullrank.paper.results import collect, read_runs
from paper.samples import runs_for, write_qm9, write_run


def verdicts(tables=()):
    return {claim.says: judge(claim, tables) for claim in claims()}


def test_the_sign_test_by_hand():
    # 2 of 7: P(X >= 5) of 7 fair coins is 29/128; 1 of 10: P(X >= 9) is 11/1024.
    assert sign_test([1.0] * 5 + [-1.0] * 2).p == pytest.approx(29 / 128)
    assert sign_test([1.0] * 5 + [-1.0] * 2).verdict == "does not"
    assert sign_test([1.0] * 9 + [-1.0]).p == pytest.approx(11 / 1024)
    assert sign_test([1.0] * 9 + [-1.0]).verdict == "holds"
    assert sign_test([1.0] * 4).verdict == "not enough runs"
    assert sign_test([1.0] * 5).verdict == "holds"
    assert sign_test([-1.0] * 5).verdict == "does not"


@given(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), max_size=30))
def test_ties_do_not_count(signs):
    assert sign_test(signs) == sign_test([sign for sign in signs if sign])


def test_every_claim_is_about_rows_that_exist():
    for claim in claims():
        for compared in filter(None, (claim, claim.published, claim.balanced)):
            table = load_table(compared.table)
            rows = {compared.better, compared.worse, *(compared.than or ())}
            assert rows <= table.rows.keys()
            assert {*compared.dense, *compared.sparse} <= table.columns.keys()


def test_the_runs_decide(tmp_path):
    write_qm9(tmp_path)
    results = verdicts(collect(read_runs(tmp_path)))
    found = {says: result.scales for says, result in results.items()}
    more = found["Four aggregators are better than one"]["small"]
    assert (more.verdict, more.wins, more.pairs) == ("holds", 9, 9)
    # In these runs 16 aggregators are better than 32, and nobody ran GCN.
    less = found["Thirty-two aggregators are better than sixteen"]["small"]
    assert (less.verdict, less.wins, less.pairs) == ("does not", 0, 9)
    gcn = found["ExpC is better than GCN on QM9"]["small"]
    assert (gcn.verdict, gcn.pairs) == ("not enough runs", 0)
    assert found["ExpC is better than GIN on QM9"]["small"].verdict == "holds"
    assert found["Re-SUM helps ExpC on OGB"] == {}


def test_the_papers_own_numbers():
    found = {says: result.published for says, result in verdicts().items()}
    # Table 2: from s = 1 to s = 4 only C_v gets worse.
    four = found["Four aggregators are better than one"]
    assert (four.wins, four.pairs, four.verdict) == (11, 12, "holds")
    # Re-SUM on ogbg-molhiv makes ExpC worse; four data sets are too few to tell.
    hiv = found["Re-SUM helps ExpC on OGB"]
    assert (hiv.wins, hiv.pairs, hiv.verdict) == (3, 4, "not enough runs")
    # Of the sets of our own table the paper has ogbg-molhiv, COLLAB and, where GIN is
    # better, REDDIT-BINARY; ExpC saves the largest share of the error on COLLAB.
    gin = found["ExpC-4 is better than GIN on TU and ogbg-molhiv"]
    assert (gin.wins, gin.pairs) == (2, 3)
    dense = found["ExpC-4 gains more over GIN on dense graphs, TU and ogbg-molhiv"]
    assert (dense.wins, dense.pairs) == (1, 1)


def test_the_balanced_networks_decide_beside_the_papers(tmp_path):
    scores = {"GIN": 0.7, "CombC": 0.6, "GIN, balanced": 0.7, "CombC, balanced": 0.8}
    for row, score in scores.items():
        for column in ("MUTAG", "PROTEINS"):
            only = [row, column, "fair"]
            for run in runs_for("networks-tu", "small", tmp_path, only):
                write_run(run, "accuracy", 0.5, score)
    found = verdicts(collect(read_runs(tmp_path)))
    result = found["CombC is better than GIN on TU and ogbg-molhiv"]
    papers, balanced = result.scales["small"], result.balanced["small"]
    assert (papers.wins, papers.pairs) == (0, 2)
    assert (balanced.wins, balanced.pairs) == (2, 2)


def test_dense_sets_are_compared_with_sparse_ones():
    (claim,) = (c for c in claims() if c.dense and c.better == "ExpC-s")

    def number(mean):
        return Number("accuracy_pct", "max", mean, None)

    numbers = {
        ("GIN", "COLLAB"): number(80.0),
        ("ExpC-s", "COLLAB"): number(90.0),  # half of the error is saved
        ("GIN", "REDDIT-BINARY"): number(92.0),
        ("ExpC-s", "REDDIT-BINARY"): number(94.0),  # a quarter
        ("GIN", "ogbg-molhiv"): number(70.0),
        ("ExpC-s", "ogbg-molhiv"): number(88.0),  # three fifths; 0.425 in the mean
        ("GIN", "ogbg-ppa"): number(70.0),
        ("ExpC-s", "ogbg-ppa"): number(82.0),  # two fifths
    }
    verdict = judge_published(claim, numbers)
    assert (verdict.wins, verdict.pairs) == (1, 2)


def test_runs_of_different_lengths_or_folds_are_no_pairs(tmp_path):
    def pairs(folder, change):
        for row in ("GIN", "CombC"):
            only = [row, "MUTAG", "fair"]
            for run in runs_for("baselines-ogb-tu", "paper", folder, only):
                run = run.changed(**change) if row == "GIN" else run
                write_run(run, "accuracy", 0.5, 0.6 if row == "GIN" else 0.7)
        found = verdicts(collect(read_runs(folder)))
        return found["CombC is better than GIN on OGB and TU"].scales["paper"].pairs

    assert pairs(tmp_path / "same", {}) == 1
    assert pairs(tmp_path / "longer", {"training": {"epochs": 200}}) == 0
    zhang = {"split": {"folder": Path("anywhere/MUTAG")}}
    assert pairs(tmp_path / "zhang", zhang) == 0


def test_gains_on_dense_graphs_are_compared_with_those_on_sparse_ones(tmp_path):
    errors = {
        "GIN-0, bonds without lengths": (1.0, 1.0),
        "ExpC-4, bonds without lengths": (0.8, 0.8),  # a fifth is saved
        "GIN-0, complete without lengths": (2.0, 2.0),
        "ExpC-4, complete without lengths": (1.7, 1.5),  # 15% and a quarter
    }
    for row, of_seeds in errors.items():
        for run in runs_for("density-qm9", "small", tmp_path, [row, "gap"], 2):
            write_run(run, "mae", 1.0, of_seeds[run.seeds[0]])
    tables = collect(read_runs(tmp_path))
    (claim,) = (claim for claim in claims() if claim.than is not None)
    verdict = judge(claim, tables).scales["small"]
    assert (verdict.wins, verdict.pairs) == (1, 2)


def test_a_row_without_errors_leaves_none_to_save():
    (claim,) = (c for c in claims() if c.dense and c.better == "ExpC-s")
    numbers = {
        (row, column): Number("accuracy_pct", "max", mean, None)
        for row, mean in (("GIN", 100.0), ("ExpC-s", 99.0))
        for column in ("COLLAB", "REDDIT-BINARY")
    }
    assert judge_published(claim, numbers).pairs == 0
