"""The coordinator's side of a run within FLARE: what is named in a job, and how requests travel."""

from collections.abc import Mapping
from typing import Any

from nvflare.collab.api.exceptions import CollabCallError, RunAborted

from sottovoce.vertical.flare.parties import Call, RunStopped

__all__ = ["carrier"]


def carrier(proxies: Mapping[str, Any]) -> Call:
    """Return what carries requests to the clients of a job, by their names."""

    def call(name: str, raw: bytes, seconds: float) -> object:
        try:
            return proxies[name](timeout=seconds).answer(raw=raw)
        except RunAborted:
            raise RunStopped("the run was aborted") from None
        except CollabCallError as error:
            if isinstance(error.cause, TimeoutError):
                raise TimeoutError from None
            raise ConnectionError from None  # what it says came from the party: not shown

    return call
