"""BREC's own procedure for any model: Reliable Paired Comparisons."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from scipy.stats import f as f_distribution
from torch import Tensor
from torch_geometric.data import Batch, Data

from fullrank.errors import ConfigError, ModelError
from fullrank.lab.graphs.pairs import PairSuite, relabel
from fullrank.lab.graphs.separates import Separation, separates
from fullrank.lab.graphs.suites import load_suite
from fullrank.lab.running import Runner, runner_of

PROTOCOLS = ("rpc", "exact")
Factory = Callable[[], torch.nn.Module]


@dataclass(frozen=True)
class RPC:
    """The settings of the procedure, by default those of the released code.

    Attributes:
        relabelings: Number of relabeled copies of each graph (q).
        epochs: Maximum number of passes over them.
        batch_size: Number of graphs per step, half of them of each kind.
        learning_rate: Learning rate of Adam, reduced on plateaus.
        weight_decay: Weight decay of Adam.
        margin: Margin of the cosine embedding loss.
        stop_below: Mean loss at which training stops.
        threshold: Threshold of the released statistic.
        confidence: Confidence of Hotelling's test, which sets its threshold.
    """

    relabelings: int = 32
    epochs: int = 20
    batch_size: int = 16
    learning_rate: float = 1e-4
    weight_decay: float = 1e-4
    margin: float = 0.0
    stop_below: float = 0.2
    threshold: float = 72.34
    confidence: float = 0.95

    def hotelling_threshold(self, dim: int) -> float:
        r"""The value that Hotelling's statistic exceeds with probability 1 - confidence
        if both means are equal: :math:`\frac{(q-1)d}{q-d} F_{d,\,q-d}`; 72.34 for q =
        32 and d = 16."""
        q = self.relabelings
        if dim >= q:
            raise ConfigError(
                f"the test needs more relabelings than outputs, got {q} relabelings "
                f"for {dim} outputs"
            )
        quantile = f_distribution.ppf(self.confidence, dim, q - dim)
        return (q - 1) * dim / (q - dim) * quantile


@dataclass(frozen=True)
class PairedComparisons:
    r"""The result of the procedure for each pair.

    Both statistics are :math:`\bar{D}^\top S^+ \bar{D}` of the differences D between
    the embeddings of the two graphs, relabeled. Hotelling's T² has the factor q in
    front, the number of relabelings. The released code omits the factor but keeps the
    threshold, so its test is stricter by a factor of q: pairs that it distinguishes are
    also distinguished by Hotelling's test, and fewer pairs fail the reliability check.

    Attributes:
        suite: The pairs.
        statistic: The statistic without the factor, ``[P]``.
        reliability: The statistic between copies of one graph, ``[P]``.
        constant: Whether the difference is the same for all relabelings and not 0,
            ``[P]``: S is then 0 up to rounding, and the statistic is meaningless.
        dim: Number of outputs.
        settings: Settings of the procedure.
    """

    suite: PairSuite
    statistic: Tensor
    reliability: Tensor
    constant: Tensor
    dim: int
    settings: RPC = field(default_factory=RPC)

    @property
    def released(self) -> Tensor:
        """Pairs distinguished by the released code's rule, reliable or not, ``[P]``."""
        close = torch.isclose(self.statistic, self.reliability, atol=1e-6)
        return (self.statistic > self.settings.threshold) & ~close

    @property
    def released_failures(self) -> Tensor:
        """Pairs that fail its reliability check, ``[P]``."""
        return ~(self.reliability < self.settings.threshold)

    @property
    def hotelling(self) -> Tensor:
        """Pairs distinguished by Hotelling's test and reliable, ``[P]``."""
        q = self.settings.relabelings
        limit = self.settings.hotelling_threshold(self.dim)
        return (q * self.statistic > limit) & ~self.hotelling_failures

    @property
    def hotelling_failures(self) -> Tensor:
        """Pairs for which Hotelling's test distinguishes copies of one graph, ``[P]``;
        at 95% confidence 1 in 20 is expected."""
        limit = self.settings.hotelling_threshold(self.dim)
        return self.settings.relabelings * self.reliability > limit

    @property
    def count(self) -> int:
        """The number that the released code reports: distinguished minus failures."""
        return int(self.released.sum()) - int(self.released_failures.sum())

    def by_group(self) -> dict[str, tuple[int, int, int]]:
        """For each category: the reliable pairs by the released rule and by Hotelling's
        test, and all pairs."""
        one = self.suite.count_by_group(self.released & ~self.released_failures)
        two = self.suite.count_by_group(self.hotelling)
        total = Counter(self.suite.groups)
        return {group: (one[group], two[group], total[group]) for group in total}

    def __str__(self) -> str:
        return (
            f"{self.count} of {len(self.suite)} pairs of {self.suite.name} (released "
            f"rule: {int(self.released.sum())} distinguished, "
            f"{int(self.released_failures.sum())} unreliable; Hotelling's test: "
            f"{int(self.hotelling.sum())} distinguished and reliable, "
            f"{int(self.hotelling_failures.sum())} unreliable; "
            f"{int(self.constant.sum())} without variation)"
        )


def brec(
    factory: Factory,
    protocol: str = "rpc",
    folder: str | Path | None = None,
    suite: PairSuite | None = None,
    transform: Callable[[Data], Data] | None = None,
    settings: RPC | None = None,
    seed: int = 2023,
    call: Runner | None = None,
    progress: Callable[[int], object] | None = None,
) -> PairedComparisons | Separation:
    """Measure a model on BREC.

    ``"rpc"`` is the benchmark's own procedure: for each pair a fresh model is trained
    with a cosine embedding loss to embed relabeled copies of the two graphs
    differently, and tested on the same copies; a pair is unreliable if the test also
    distinguishes copies of one graph. ``"exact"`` is :func:`fullrank.lab.separates`:
    one untrained model in float64, without statistics.

    Args:
        factory: Returns a model, which takes a PyG batch and returns one row per graph:
            16 numbers in the benchmark.
        protocol: ``"rpc"`` or ``"exact"``.
        folder: Folder that contains ``brec/*.g6``.
        suite: Pairs to use instead of BREC's.
        transform: Applied to each graph or batch after relabeling.
        settings: Settings of ``"rpc"``.
        seed: Seed of weights and relabelings.
        call: Runs the model, ``call(model, batch)``; ``model(batch)`` by default.
        progress: Called with the number of pairs done so far.
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(
            f"protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}"
        )
    suite = load_suite("brec", folder) if suite is None else suite
    torch.manual_seed(seed)
    if protocol == "exact":
        return separates(factory(), suite, transform=transform, seed=seed, call=call)
    settings = settings or RPC()
    generator = torch.Generator().manual_seed(seed)
    results: list[tuple[Tensor, Tensor, bool]] = []
    dim = 0
    for first, second in suite.pairs.tolist():
        pair = suite.graphs[first], suite.graphs[second]
        test = _copies(pair, settings.relabelings, generator)
        one = pair[int(torch.randint(2, (), generator=generator))]
        same = _copies((one, one), settings.relabelings, generator)
        comparison = _Comparison(factory(), settings, transform, call)
        comparison.train(test)
        statistic, constant, dim = comparison.statistic(test)
        results.append((statistic, comparison.statistic(same)[0], constant))
        if progress is not None:
            progress(len(results))
    return PairedComparisons(
        suite,
        torch.stack([statistic for statistic, _, _ in results]),
        torch.stack([reliability for _, reliability, _ in results]),
        torch.tensor([constant for _, _, constant in results]),
        dim,
        settings,
    )


def _copies(
    pair: tuple[Data, Data], count: int, generator: torch.Generator
) -> list[Data]:
    """Alternating relabeled copies of two graphs; the first ones are not relabeled."""
    copies = [*pair]
    for _ in range(count - 1):
        copies += [relabel(graph, generator) for graph in pair]
    return copies


class _Comparison:
    """One model, trained on one pair of graphs and compared on it."""

    def __init__(
        self,
        model: torch.nn.Module,
        settings: RPC,
        transform: Callable[[Data], Data] | None,
        call: Runner | None,
    ) -> None:
        self.model, self.settings, self.transform = model, settings, transform
        self.run = runner_of(model, call)

    def train(self, copies: list[Data]) -> None:
        """Train the model to embed the two graphs differently."""
        s = self.settings
        optimizer = torch.optim.Adam(
            self.model.parameters(), lr=s.learning_rate, weight_decay=s.weight_decay
        )
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        loss_of = torch.nn.CosineEmbeddingLoss(margin=s.margin)
        batches = self._batches(copies)
        self.model.train()
        for _ in range(s.epochs):
            total = 0.0
            for batch in batches:
                optimizer.zero_grad()
                out = self.run(self.model, batch.clone())
                first, second = out[0::2], out[1::2]
                loss = loss_of(first, second, -torch.ones(len(first)))
                loss.backward()
                optimizer.step()
                total += len(first) * loss.item()
            mean = total / s.relabelings
            if mean < s.stop_below:
                break
            scheduler.step(mean)

    @torch.no_grad()
    def statistic(self, copies: list[Data]) -> tuple[Tensor, bool, int]:
        """The released statistic, whether the difference is constant over all copies
        and not 0, and the number of outputs."""
        self.model.eval()
        batches = self._batches(copies)
        out = torch.cat([self.run(self.model, batch.clone()) for batch in batches])
        if not out.isfinite().all():
            raise ModelError("the model embeds some graphs as NaN or infinity")
        difference = (out[0::2] - out[1::2]).T  # [d, q]
        mean = difference.mean(dim=1)
        spread = torch.atleast_2d(difference.cov())
        same = bool((difference == difference[:, :1]).all())
        constant = same and bool(mean.any())
        statistic = mean @ torch.linalg.pinv(spread) @ mean
        return statistic.double(), constant, len(mean)

    def _batches(self, copies: list[Data]) -> list[Batch]:
        size = self.settings.batch_size
        chunks = [copies[i : i + size] for i in range(0, len(copies), size)]
        batches = [Batch.from_data_list(chunk) for chunk in chunks]
        return [self.transform(b) for b in batches] if self.transform else batches
