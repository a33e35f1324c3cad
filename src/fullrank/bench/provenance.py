"""What a benchmark was measured with."""

from dataclasses import dataclass

from fullrank.train.environment import origin


@dataclass(frozen=True)
class Provenance:
    """Versions, commit and processor, written beside the numbers."""

    fullrank: str
    commit: str | None
    python: str
    torch: str
    torch_geometric: str
    processor: str


def provenance() -> Provenance:
    """The provenance of what this process measures."""
    return Provenance(**origin())
