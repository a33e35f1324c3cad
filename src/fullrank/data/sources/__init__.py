"""Where graphs come from."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt


class StructureOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    hops: NonNegativeInt | Literal["all"] = 2
    mark: Literal["pair", "center"] = "pair"
    node_labels: str | None = None
    edge_labels: str | None = None
    memory_limit: PositiveInt = 2**30
