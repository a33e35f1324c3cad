"""Predictions on a Ray cluster, block by block.

If a node is lost, its blocks are computed again on another node.
"""

import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from fullrank.data.featurizers import featurize
from fullrank.errors import RunError
from fullrank.train.cluster import connect
from fullrank.train.model import Model
from fullrank.train.predict import Predictor

_RETRIES = 10
_BLOCKS_PER_CPU = 2  # so that no node is idle


def predict_on_ray(
    predictor: Predictor,
    blocks: Iterable[list[Any]],
    interval: float | None,
    address: str,
) -> Iterator[list[list[Any]]]:
    """The rows of each block of SMILES, in order.

    The nodes need fullrank, but neither the model nor the table.

    Args:
        address: Address of the cluster, or ``auto`` for that of this machine.
    """
    ray = connect(address)
    models = ray.put([model.to_bytes() for model in predictor.models])
    compute = ray.remote(_compute).options(num_cpus=1, max_retries=_RETRIES)
    most = _BLOCKS_PER_CPU * max(1, int(ray.cluster_resources().get("CPU", 1)))
    pending: deque[Any] = deque()
    try:
        for block in blocks:
            pending.append(compute.remote(models, block, interval))
            if len(pending) >= most:
                yield ray.get(pending.popleft())
        while pending:
            yield ray.get(pending.popleft())
    except ray.exceptions.RayTaskError as error:
        raise error.as_instanceof_cause() from None
    except ray.exceptions.RayError as error:
        raise RunError(
            f"the Ray cluster at {address!r} lost a block of rows {_RETRIES} times: "
            f"{str(error).splitlines()[0]}"
        ) from None


def _compute(
    models: list[bytes], block: list[Any], interval: float | None
) -> list[list[Any]]:
    """Runs on a node."""
    predictor = _predictor(tuple(models))
    (made,) = featurize(predictor.reading, [block])
    return predictor.rows(made, interval)


@cache
def _predictor(models: tuple[bytes, ...]) -> Predictor:
    loaded = []
    for content in models:
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(content)
            file.flush()
            loaded.append(Model.load(Path(file.name)))
    return Predictor(loaded)
