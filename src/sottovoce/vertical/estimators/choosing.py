"""``mechanism="auto"``: joint training or local models, by public facts alone, and why."""

import math
from collections.abc import Collection, Mapping
from typing import Final

from sottovoce.privacy.calibration import gaussian_mu

__all__ = ["choose_mechanism"]

# People times mean shift, for each weight: below it the noise of joint sums weighs more than what they say beyond
# models that are trained apart. Chosen by `benchmarks.vertical.secure_rules`: right in 91 of 128 cases, where always
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

    Parameters
    ----------
    n_samples, n_features : int
        People, and columns of all parties.
    epsilon, delta : float
    engine : str or None
        That all parties have; "in-process" is no reason for a joint training.
    engines : dict
        What each party that computes has, helpers included.
    is_classification : bool
        Whether labels are classes.
    colluding : int
        Parties against whom the noise holds together.
    """
    if engine is None or engine == "in-process":
        lacking = next((name for name, each in engines.items() if not set(each) - {"in-process"}), None)
        who = f"{lacking!r} has none" if lacking is not None else "they have none in common for so many parties"
        return "local-models", f"no engine of secure computation for these parties: {who}"
    # each of K parties adds a share of the noise, of which the colluding ones know theirs
    noise_factor = math.sqrt(len(engines) / max(1, len(engines) - colluding))
    signal = n_samples * gaussian_mu(epsilon, delta) / noise_factor / (n_features + 1)
    least = _LEAST_SIGNAL
    if is_classification == (engine == "mpyc"):
        least = _LEAST_SIGNAL_OF_CUBICS if is_classification else _LEAST_SIGNAL_OF_NUMBERS
    told = f"people x mu / noise / columns = {signal:.3g}"
    if signal < least:
        return "local-models", f"{told} is below {least:g}: the noise of joint sums would weigh more"
    return "secure", f"all parties have {engine}, and {told} is at least {least:g}"
