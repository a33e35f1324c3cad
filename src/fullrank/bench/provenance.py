"""The versions and machine of a benchmark."""

from dataclasses import dataclass, fields

from fullrank.train.environment import environment


@dataclass(frozen=True)
class Provenance:
    """Versions, commit and processor, stored with the numbers."""

    fullrank: str
    commit: str | None
    python: str
    torch: str
    torch_geometric: str
    processor: str


def provenance() -> Provenance:
    """The provenance of measurements in this process."""
    here = environment()
    return Provenance(**{f.name: getattr(here, f.name) for f in fields(Provenance)})
