"""Connecting to a Ray cluster."""

import logging
import os
import socket
from typing import Any

from fullrank.data.cache import ROOT_VARIABLE
from fullrank.data.files import MIRROR_VARIABLE
from fullrank.errors import RunError
from fullrank.extras import need

_SECONDS_TO_ANSWER = 5


def connect(address: str) -> Any:
    """The package ``ray``, connected to a cluster.

    Args:
        address: ``auto`` for the cluster that this machine belongs to, ``HOST:PORT``
            or ``ray://HOST:PORT``.
    """
    need("ray")
    import ray

    if address != "auto":
        _check_that_it_answers(address)
    if not ray.is_initialized():
        try:
            ray.init(
                address=address,
                runtime_env={"env_vars": _data_folders()},
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise RunError(
                f"there is no Ray cluster at {address!r}: start one with "
                f"`ray start --head`, or run here instead ({error})"
            ) from None
    return ray


def _data_folders() -> dict[str, str]:
    """The environment variables for data folders, passed on to every node."""
    names = (ROOT_VARIABLE, MIRROR_VARIABLE)
    return {name: os.environ[name] for name in names if name in os.environ}


def _check_that_it_answers(address: str) -> None:
    """Fail early: Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), _SECONDS_TO_ANSWER).close()
    except ValueError:
        raise RunError(
            f"a Ray address is auto, HOST:PORT or ray://HOST:PORT, got {address!r}"
        ) from None
    except OSError as error:
        raise RunError(
            f"no Ray cluster answers at {address!r} ({error.strerror or error}); "
            f"`ray status` on the cluster's head node shows its address"
        ) from None
