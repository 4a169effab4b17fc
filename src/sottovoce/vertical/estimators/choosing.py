"""``mechanism="auto"``: joint training or local models, by public facts alone, and why."""

from collections.abc import Collection, Mapping
from typing import Final

from sottovoce.privacy.calibration import gaussian_mu

__all__ = ["choose_mechanism"]

# people times mean shift, for each column of all parties: below it the noise in the second moments weighs more than
# what the columns of the others say
_LEAST_SIGNAL: Final = 10.0


def choose_mechanism(
    *,
    n_samples: int,
    n_features: int,
    epsilon: float,
    delta: float,
    engine: str | None,
    engines: Mapping[str, Collection[str]],
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
        What each party has.
    """
    if engine is None or engine == "in-process":
        lacking = next((name for name, each in engines.items() if not set(each) - {"in-process"}), None)
        who = f"{lacking!r} has none" if lacking is not None else "they have none in common for so many parties"
        return "local-models", f"no engine of secure computation for these parties: {who}"
    signal = n_samples * gaussian_mu(epsilon, delta) / max(1, n_features)
    if signal < _LEAST_SIGNAL:
        return "local-models", (
            f"people x mu / columns = {signal:.3g} is below {_LEAST_SIGNAL:g}: the noise of joint sums would weigh more"
        )
    why = f"all parties have {engine}, and people x mu / columns = {signal:.3g} is at least {_LEAST_SIGNAL:g}"
    return "secure", why
