"""The public parameters of a collection of Bernstein reports, frozen before anybody reports."""

import math
import warnings
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from sottovoce._validation import MAX_EPSILON, MIN_DELTA, MIN_EPSILON, choice, magnitude, number, whole_number
from sottovoce.exceptions import ParameterError, PrivacyWarning
from sottovoce.local.text import ProtocolText, check_entries
from sottovoce.published.bernstein.noise import KINDS, CopyNoise, copies

if TYPE_CHECKING:
    from sottovoce.published.bernstein.oracle import Oracle

__all__ = ["LOSSES", "RESIDUALS", "BernsteinProtocol"]

LOSSES: Final = ("hinge", "logistic", "hinge by mixture", "absolute")
RESIDUALS: Final = ("absolute residual", "huber residual")

_MECHANISM: Final = "bernstein"
_MOST_NOISE: Final = 2.0**20
_FINEST: Final = 2.0**-29  # y = 1 must fit in 32 bits of ticks, noise included
_MOST_NUMBERS: Final = 2**24  # in one report
_MOST_ORDER: Final = 20


@dataclass(frozen=True)
class BernsteinProtocol(ProtocolText):
    r"""Everything that devices and server agree on for Algorithms 1 and 2 of Wang, Smith and Xu (2019).

    Parameters
    ----------
    loss : {"hinge", "logistic", "hinge by mixture", "absolute", "absolute residual", "huber residual"}
        Function f of u = y <w, x>. ``"hinge"`` is [1/2 - u]_+ by Algorithm 1; the next three go by Algorithm 2:
        log(1 + exp(-u)), the same hinge once more, and \|1/2 - u\|. The last two are for a label y in [-1, 1] and
        functions of <w, x> - y (Remark 4.14): its absolute value, and Huber's loss with a bend at 2 beta.
    n_features : int, >= 1
        d. Whoever wants an intercept adds a constant feature on the device, within ``data_norm``.
    epsilon, delta : float
        Budget of one person's only report, against everybody, the server included.
    degree : int, default 1
        p of the polynomial; a report has p(p+1) + 1 copies.
    beta : float, default 0.25
        Width over which the kink of the loss is smoothed, in (0, 1].
    noise : {"tight", "basic", "printed"}
        See `sottovoce.published.bernstein.noise`. ``"printed"`` does not keep epsilon and delta in general: it warns,
        and the receipt states what it really gives.
    data_norm : float, default 1.0
        Public bound on the norm of x; longer ones are shortened on the device. The constraint set is
        \|w\| <= 1 / data_norm.
    first_std, other_std, tick : float, optional
        Noise of copy 0 and of the others in units of ``data_norm``, and the grid. Worked out from the rest; given only
        when a protocol is read, and checked then to keep the budget.
    order : int, default 1
        h of the iterated Bernstein operator, at most 20. Devices do not depend on it. At degree 1 it changes nothing.

    Attributes
    ----------
    id : bytes
        The first 8 bytes of the SHA-256 of `to_json`.
    """

    loss: str
    n_features: int
    epsilon: float
    delta: float
    degree: int = 1
    beta: float = 0.25
    noise: str = "tight"
    data_norm: float = 1.0
    first_std: float = math.nan  # NaN in all three: to be worked out
    other_std: float = math.nan
    tick: float = math.nan
    order: int = 1

    def __post_init__(self) -> None:
        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        keep("loss", choice("loss", self.loss, (*LOSSES, *RESIDUALS)))
        keep("n_features", whole_number("n_features", self.n_features, at_least=1))
        keep("epsilon", number("epsilon", self.epsilon, at_least=MIN_EPSILON, at_most=MAX_EPSILON))
        remedy = "Choose it well below 1 / people."
        keep("delta", number("delta", self.delta, at_least=MIN_DELTA, below=1.0, remedy=remedy))
        keep("degree", whole_number("degree", self.degree, at_least=1, at_most=100))
        keep("order", whole_number("order", self.order, at_least=1, at_most=_MOST_ORDER))
        keep("beta", number("beta", self.beta, above=0.0, at_most=1.0))
        keep("noise", choice("noise", self.noise, KINDS))
        keep("data_norm", magnitude("data_norm", self.data_norm))
        if not self.n_copies * (self.n_features + 1) <= _MOST_NUMBERS:
            raise ParameterError(
                f"a report of degree {self.degree} on {self.n_features} features would hold "
                f"{self.n_copies * (self.n_features + 1)} numbers: lower degree or n_features."
            )
        if all(isinstance(v, float) and math.isnan(v) for v in (self.first_std, self.other_std, self.tick)):
            planned = CopyNoise.calibrated(self.noise, self.epsilon, self.delta, self.degree)
            keep("first_std", planned.first_std)
            keep("other_std", planned.other_std)
            keep("tick", _tick(planned))
        self._check_noise()
        if self.noise == "printed":
            warnings.warn(
                f"noise='printed' is the noise of the paper, kept for reproduction: it claims epsilon={self.epsilon:g} "
                f"at delta={self.delta:g}, one report really costs epsilon={self.true_epsilon:.4g} there. "
                "Use noise='tight'.",
                PrivacyWarning,
                stacklevel=3,
            )

    @property
    def regression(self) -> bool:
        """Whether labels are numbers in [-1, 1], and the loss is one of the residual."""
        return self.loss in RESIDUALS

    @property
    def n_copies(self) -> int:
        """Number of noisy copies in a report."""
        return copies(self.degree)

    @property
    def report_size(self) -> int:
        """Bytes of a report."""
        return 12 + 4 * self.n_copies * (self.n_features + 1)

    @property
    def copy_noise(self) -> CopyNoise:
        """The noise, from which both the reports and the receipt are made."""
        return CopyNoise(self.degree, self.first_std, self.other_std)

    @property
    def true_epsilon(self) -> float:
        """What one report costs at ``delta``, exactly."""
        return self.copy_noise.epsilon(self.delta)

    @property
    def oracle(self) -> "Oracle":
        """The polynomial surrogate of the loss."""
        from sottovoce.published.bernstein.general_loss import GENERAL_LOSSES
        from sottovoce.published.bernstein.oracle import Oracle
        from sottovoce.published.bernstein.residual_loss import RESIDUAL_LOSSES

        if self.regression:
            return Oracle(self.degree, self.beta, RESIDUAL_LOSSES[self.loss](self.beta), self.order)
        return Oracle(self.degree, self.beta, GENERAL_LOSSES.get(self.loss), self.order)

    def _entries(self) -> dict[str, Any]:
        entries = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        if self.order == 1:  # as before there were others, so that a protocol of then keeps its id
            del entries["order"]
        return {"mechanism": _MECHANISM} | entries

    @classmethod
    def _arguments(cls, entries: dict[str, Any]) -> dict[str, Any]:
        check_entries(entries, {"mechanism", *(entry.name for entry in fields(cls))} - ({"order"} - set(entries)))
        choice("mechanism", entries["mechanism"], (_MECHANISM,))
        return {name: value for name, value in entries.items() if name != "mechanism"}

    def _check_noise(self) -> None:
        for name in ("first_std", "other_std"):
            number(name, getattr(self, name), above=0.0, at_most=_MOST_NOISE, remedy="Raise epsilon, or lower degree.")
        least, most = _ticks(self.copy_noise)
        if not (math.frexp(number("tick", self.tick))[0] == 0.5 and least <= self.tick <= most):
            raise ParameterError(f"tick must be a power of two in [{least!r}, {most!r}]; got {self.tick!r}.")
        if self.noise == "printed":
            planned = CopyNoise.calibrated(self.noise, self.epsilon, self.delta, self.degree)
            if not (
                math.isclose(self.first_std, planned.first_std, rel_tol=1e-9)
                and math.isclose(self.other_std, planned.other_std, rel_tol=1e-9)
            ):
                raise ParameterError(f"first_std and other_std must be those printed in the paper, {planned!r}.")
        elif not self.copy_noise.delta(self.epsilon) <= self.delta * (1.0 + 1e-8):
            raise ParameterError(
                f"first_std={self.first_std!r} and other_std={self.other_std!r} give delta="
                f"{self.copy_noise.delta(self.epsilon):.3g} at epsilon={self.epsilon!r}, more than the protocol's "
                f"{self.delta!r}: do not take part in it."
            )


def _ticks(noise: CopyNoise) -> tuple[float, float]:
    """Return the finest tick that 32 bits can hold with 9.2 standard deviations, and the coarsest that noise hides."""
    most = _power_of_two_below(min(noise.first_std, noise.other_std, 1.0)) / 64.0
    least = _power_of_two_below(max(noise.first_std, noise.other_std)) * 2.0**-26
    return max(least, _FINEST), most


def _tick(noise: CopyNoise) -> float:
    least, most = _ticks(noise)
    return max(least, min(most * 2.0**-14, 2.0**-20))


def _power_of_two_below(value: float) -> float:
    return math.ldexp(1.0, math.frexp(value)[1] - 1)
