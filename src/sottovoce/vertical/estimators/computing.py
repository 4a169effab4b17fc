"""Which engine of secure computation the parties use: the one that is named, else one that all of them have."""

import json
from collections.abc import Collection, Mapping
from typing import Final

from sottovoce.exceptions import ParameterError, PartyError
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.engines.site import ENGINES, IN_PROCESS
from sottovoce.vertical.estimators.parties import owned
from sottovoce.vertical.protocols.secure.messages import AskEngines, Engines

__all__ = ["CHOICES", "ask_engines", "choose_engine", "engine_for"]

CHOICES: Final = ("auto", *ENGINES, IN_PROCESS)

_MOST_NAMES: Final = 100
_SIZES: Final[Mapping[str, tuple[int, float]]] = {"spu": (2, 3), "mpyc": (3, float("inf"))}


def ask_engines(parties: Parties) -> dict[str, dict[str, str]]:
    """Ask every party which engines it may use, with their versions.

    "in-process" is only good where all of them live in this process.
    """
    together = set(owned(parties)) == set(parties.names)
    engines = {}
    for name, reply in parties.exchange(AskEngines(), Engines).items():
        try:
            told = json.loads(reply.engines)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict) or len(told) > _MOST_NAMES or not all(isinstance(v, str) for v in told.values()):
            raise PartyError(f"party {name!r} does not say which engines it has. Bring all sites to the same version.")
        engines[name] = {kind: version for kind, version in told.items() if together or kind != IN_PROCESS}
    return engines


def choose_engine(engines: Mapping[str, Collection[str]], only: Collection[str] = ENGINES) -> str | None:
    """Return the engine that parties compute with, given what each has; None if there is none for all of them."""
    for kind, (least, most) in _SIZES.items():
        if kind in only and least <= len(engines) <= most and all(kind in each for each in engines.values()):
            return kind
    return IN_PROCESS if all(IN_PROCESS in each for each in engines.values()) else None


def engine_for(given: str, engines: Mapping[str, Collection[str]], only: Collection[str] = ENGINES) -> str:
    """Return the engine that was named, or the one that all parties have; ``only`` are those that can do it.

    Raises
    ------
    ParameterError
        In words: what each party lacks, and what to do.
    """
    has = "; ".join(f"{name!r} has {', '.join(each) or 'none'}" for name, each in engines.items())
    remedy = (
        "Install sottovoce[secure] at every party, and say where it computes: Party(..., computing=ComputeSite(...)); "
        "a trial in one process needs neither, with parties that have no ComputeSite."
    )
    if given == "auto":
        chosen = choose_engine(engines, only)
        if chosen is None:
            if "mpyc" not in only:
                raise ParameterError(
                    f"aggregation='secure' found no engine for these {len(engines)} parties: it takes spu, for two or "
                    f"three parties, and every one of them must have it. Party {has}. {remedy}"
                )
            raise ParameterError(
                f"mechanism='secure' found no engine for these {len(engines)} parties: spu is for two or three, mpyc "
                f"for three or more, and every one of them must have it. Party {has}. {remedy} A Helper(...) makes two "
                "parties three."
            )
        return chosen
    lacking = [name for name, each in engines.items() if given not in each]
    if lacking:
        raise ParameterError(f"engine={given!r} is not to be had at {lacking[0]!r}: party {has}. {remedy}")
    least, most = _SIZES.get(given, (1, float("inf")))
    if not least <= len(engines) <= most:
        raise ParameterError(
            f"engine={given!r} computes with {'two or three parties' if given == 'spu' else 'three parties or more'}; "
            f"there are {len(engines)}. A Helper(...) adds one; engine='mpyc' takes more than three."
        )
    return given
