"""The paper's claims, judged by one rule from the runs that are there."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from statistics import fmean
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict
from scipy.stats import binomtest

from fullrank.paper.cells import load_table
from fullrank.paper.published import Better, Number, published
from fullrank.paper.record import CellResult, ClaimResult, TableResult, Verdict

LEVEL = 0.05
RULE = (
    "Two models are compared on the same data set with the same seed; on sets with "
    "folds, with the protocol fair and the mean over the same folds. Whether a gain is "
    "larger on dense graphs is decided for each dense set and seed: the relative "
    "reduction of the error there is compared with its mean over the sparse sets, or "
    "with the reduction on sparse graphs of the same molecules. A claim holds if a "
    "one-sided sign test over these pairs, ignoring ties, gives p < 0.05, and does not "
    "hold otherwise. Fewer than five pairs cannot reach this level; they count as not "
    "enough runs. Seeds of one data set are not fully independent, so p is somewhat "
    "too small. Of many claims, a few hold by chance."
)


class Comparison(BaseModel):
    """Two rows of a table that are compared.

    Attributes:
        table: Where both rows are.
        better, worse: The rows.
        dense, sparse: Compare the share of the error that `better` saves on each dense
            set with the mean of those on the sparse ones, instead of the two rows.
        than: Compare the share of the error that `better` saves with the share that the
            first of these rows saves of the error of the second.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    table: str
    better: str
    worse: str
    dense: tuple[str, ...] = ()
    sparse: tuple[str, ...] = ()
    than: tuple[str, str] | None = None


class Claim(Comparison):
    """A sentence and the comparison behind it.

    Attributes:
        says: The sentence.
        published: The rows of the published numbers, if the paper has them in another
            table; they are compared on the data sets of the claim's own table.
        balanced: The same comparison in balanced networks, which the paper does not
            have.
    """

    says: str
    published: Comparison | None = None
    balanced: Comparison | None = None


def claims() -> list[Claim]:
    file = resources.files("fullrank.paper") / "claims.yaml"
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [Claim.model_validate(claim) for claim in values]


def sign_test(differences: Sequence[float]) -> Verdict:
    """Judge by the signs of differences that are positive where the claim is right."""
    wins = sum(difference > 0 for difference in differences)
    pairs = wins + sum(difference < 0 for difference in differences)
    if 0.5**pairs >= LEVEL:
        return Verdict(verdict="not enough runs", wins=wins, pairs=pairs, p=None)
    p = float(binomtest(wins, pairs, alternative="greater").pvalue)
    verdict: Literal["holds", "does not"] = "holds" if p < LEVEL else "does not"
    return Verdict(verdict=verdict, wins=wins, pairs=pairs, p=p)


def judge(claim: Claim, tables: Sequence[TableResult]) -> ClaimResult:
    """The verdicts on a claim: of the published numbers, and of ours."""
    return ClaimResult(
        says=claim.says,
        table=claim.table,
        published=judge_published(claim.published or claim, _published(claim)),
        scales=judge_runs(claim, tables),
        balanced=judge_runs(claim.balanced, tables) if claim.balanced else None,
    )


def _published(claim: Claim) -> dict[tuple[str, str], Number]:
    """The paper's numbers on the data sets that the claim is about."""
    columns = load_table(claim.table).columns
    numbers = published((claim.published or claim).table)
    return {(row, at): found for (row, at), found in numbers.items() if at in columns}


def judge_runs(rows: Comparison, tables: Sequence[TableResult]) -> dict[str, Verdict]:
    """The verdict of our runs at each scale."""
    found = {table.scale: table for table in tables if table.name == rows.table}
    return {
        scale: sign_test(_differences(rows, partial(_pairs, table)))
        for scale, table in found.items()
    }


def judge_published(
    rows: Comparison, numbers: Mapping[tuple[str, str], Number]
) -> Verdict:
    """The verdict of the same rule on the paper's own table, one pair per data set."""

    def pairs(better: str, worse: str) -> _Pairs:
        return {
            (column, 0): _Pair(number.mean, numbers[worse, column].mean, number.better)
            for (row, column), number in numbers.items()
            if row == better and (worse, column) in numbers
        }

    return sign_test(_differences(rows, pairs))


@dataclass(frozen=True)
class _Pair:
    """The values of the two rows on one data set with one seed."""

    better: float
    worse: float
    direction: Better

    @property
    def gain(self) -> float:
        sign = 1 if self.direction == "max" else -1
        return sign * (self.better - self.worse)

    @property
    def saved(self) -> float | None:
        """The share of the error that is saved, if there is any to save."""
        error = 100 - self.worse if self.direction == "max" else self.worse
        return self.gain / error if error else None


_Pairs = dict[tuple[str, int], _Pair]


def _pairs(table: TableResult, row: str, worse_row: str) -> _Pairs:
    pairs = {}
    for column in table.columns:
        if column.protocol == "gin":
            continue
        better = table.cell(row, column.name, column.protocol)
        worse = table.cell(worse_row, column.name, column.protocol)
        for seed, one, other in _shared(better, worse):
            pairs[column.name, seed] = _Pair(one, other, column.better)
    return pairs


def _shared(
    better: CellResult | None, worse: CellResult | None
) -> Iterator[tuple[int, float, float]]:
    if better is None or worse is None:
        return
    if (better.folds, better.longer) != (worse.folds, worse.longer):
        return
    for seed in better.by_seed.keys() & worse.by_seed.keys():
        yield seed, better.by_seed[seed], worse.by_seed[seed]


def _saved(pairs: _Pairs) -> dict[tuple[str, int], float]:
    """The shares of the errors that are saved, where there is any to save."""
    return {at: pair.saved for at, pair in pairs.items() if pair.saved is not None}


def _differences(
    rows: Comparison, pairs_of: Callable[[str, str], _Pairs]
) -> list[float]:
    """What the sign test judges; ``pairs_of`` finds the values of two rows."""
    pairs = pairs_of(rows.better, rows.worse)
    if rows.than is not None:
        saved, others = _saved(pairs), _saved(pairs_of(*rows.than))
        return [saved[at] - others[at] for at in saved.keys() & others.keys()]
    if not rows.dense:
        return [pair.gain for pair in pairs.values()]
    saved = _saved(pairs)
    sparse = defaultdict(list)
    for (column, seed), share in saved.items():
        if column in rows.sparse:
            sparse[seed].append(share)
    return [
        share - fmean(sparse[seed])
        for (column, seed), share in saved.items()
        if column in rows.dense and sparse[seed]
    ]
