"""What users choose by name: mechanisms with their options, engines; and what "auto" takes, by public facts alone."""

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from sottovoce._validation import in_full
from sottovoce.exceptions import ParameterError, PartyError
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.vertical.coordinator.local_models import LocalModelsPlan
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import VerticalPlan
from sottovoce.vertical.coordinator.secure import SecurePlan
from sottovoce.vertical.engines import ENGINES, IN_PROCESS
from sottovoce.vertical.estimators.prediction import owned
from sottovoce.vertical.requests.general import Description

MECHANISMS: Final[dict[str, type[VerticalPlan]]] = {plan.name: plan for plan in (LocalModelsPlan, SecurePlan)}
"""The plan of each ``mechanism=...`` of the dense estimators."""


def given_options(name: str, given: object) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise ParameterError(f"{name} must be a dict or None; got {given!r}.")
    return dict(given or {})


def known_options(name: str, given: object, known: Collection[str], *, place: str = "") -> dict[str, Any]:
    """Return the same, or refuse an entry that is not among the ``known``; ``place`` ends its name in the message."""
    options = given_options(name, given)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ParameterError(f"{name} has no entry {unknown[0]!r}{place}; there are {', '.join(known) or 'none'}.")
    return {entry: in_full(value) for entry, value in options.items()}


# ------------------------------------------------------------------ joint training, and by which engine

# People times mean shift, for each weight: below it the noise of joint sums weighs more than what they say beyond
# models that are trained apart. See docs/decisions/0019: right in 91 of 128 cases, where always
# the one or the other is right in 45 and 83.
_LEAST_SIGNAL: Final = 15.0
_LEAST_SIGNAL_OF_CUBICS: Final = 60.0  # where an engine cannot compare, and a cubic stands for the loss of classes
_LEAST_SIGNAL_OF_NUMBERS: Final = 5.0  # where ridge is refined


def choose_mechanism(
    *,
    n_samples: int,
    n_features: int,
    epsilon: float,
    delta: float,
    engine: str | None,
    engines: Mapping[str, Collection[str]],
    is_classification: bool = True,
    colluding: int = 1,
) -> tuple[str, str]:
    """Return a mechanism and why it is chosen.

    ``n_samples`` and ``n_features``: people, and columns of all parties.
    ``engine``: that all parties have; "in-process" is no reason for a joint training.
    ``engines``: what each party that computes has, helpers included.
    ``is_classification``: whether labels are classes.
    ``colluding``: parties against whom the noise holds together.
    """
    if engine is None or engine == "in-process":
        lacking = next((name for name, each in engines.items() if not set(each) - {"in-process"}), None)
        who = f"{lacking!r} has none" if lacking is not None else "they have none in common for so many parties"
        return "local-models", f"no engine of secure computation for these parties: {who}"
    # each of K parties adds a share of the noise, of which the colluding ones know theirs
    noise_factor = math.sqrt(len(engines) / max(1, len(engines) - colluding))
    signal = n_samples * gaussian_mu(epsilon, delta) / noise_factor / (n_features + 1)
    least = _LEAST_SIGNAL
    if is_classification == (engine == "shamir"):
        least = _LEAST_SIGNAL_OF_CUBICS if is_classification else _LEAST_SIGNAL_OF_NUMBERS
    told = f"people x mu / noise / columns = {signal:.3g}"
    if signal < least:
        return "local-models", f"{told} is below {least:g}: the noise of joint sums would weigh more"
    return "secure", f"all parties have {engine}, and {told} is at least {least:g}"


CHOICES: Final = ("auto", *ENGINES, IN_PROCESS)

# as `available_engines` has them: they stand in receipts, where no party says more by them
_PACKAGE: Final = r"[a-z]{1,20} \d[0-9A-Za-z.+!]{0,40}"
_VERSIONS: Final = re.compile(f"{_PACKAGE}(?:, {_PACKAGE}){{0,4}}")
_SIZES: Final[Mapping[str, tuple[int, float]]] = {"spu": (2, 3), "shamir": (3, float("inf"))}


def told_engines(parties: Parties, told: Mapping[str, Description]) -> dict[str, dict[str, str]]:
    """Return which engines each party says that it may use, with their versions.

    "in-process" is only good where all of them live in this process.
    """
    together = set(owned(parties)) == set(parties.names)
    engines = {}
    for name, facts in told.items():
        try:
            own = json.loads(facts.engines)
        except (ValueError, RecursionError):
            own = None
        checked = checked_engines(name, own)
        engines[name] = {kind: version for kind, version in checked.items() if together or kind != IN_PROCESS}
    return engines


def checked_engines(name: str, told: Any) -> dict[str, str]:
    """Return engines of a party with their versions, if that is what it told.

    Raises `PartyError` if it is not.
    """
    if isinstance(told, dict) and set(told) <= {*ENGINES, IN_PROCESS} and all(map(_is_version, told.values())):
        return told
    raise PartyError(f"party {name!r} does not say which engines it has. Bring all sites to the same version.")


def _is_version(text: object) -> bool:
    return isinstance(text, str) and _VERSIONS.fullmatch(text) is not None


def choose_engine(engines: Mapping[str, Collection[str]], only: Collection[str] = ENGINES) -> str | None:
    """Return the engine that parties compute with, given what each has; None if there is none for all of them."""
    for kind, (least, most) in _SIZES.items():
        if kind in only and least <= len(engines) <= most and all(kind in each for each in engines.values()):
            return kind
    return IN_PROCESS if all(IN_PROCESS in each for each in engines.values()) else None


def engine_for(given: str, engines: Mapping[str, Collection[str]], only: Collection[str] = ENGINES) -> str:
    """Return the engine that was named, or the one that all parties have; ``only`` are those that can do it.

    Raises `ParameterError`: in words: what each party lacks, and what to do.
    """
    has = "; ".join(f"{name!r} has {', '.join(each) or 'none'}" for name, each in engines.items())
    remedy = (
        "Install sottovoce[secure] at every party, and say where it computes: Party(..., computing=ComputeSite(...)); "
        "a trial in one process needs neither, with parties that have no ComputeSite."
    )
    if given == "auto":
        chosen = choose_engine(engines, only)
        if chosen is None:
            if "shamir" not in only:
                raise ParameterError(
                    f"aggregation='secure' found no engine for these {len(engines)} parties: it takes spu, for two or "
                    f"three parties, and every one of them must have it. Party {has}. {remedy}"
                )
            raise ParameterError(
                f"mechanism='secure' found no engine for these {len(engines)} parties: spu is for two or three, shamir "
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
            f"there are {len(engines)}. A Helper(...) adds one; engine='shamir' takes more than three."
        )
    return given
