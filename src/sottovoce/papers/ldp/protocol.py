"""The public parameters of a collection of Bernstein reports, fixed before anybody reports."""

import hashlib
import math
import warnings
from dataclasses import asdict, dataclass, field
from typing import Final

from sottovoce._plain_data import canonical_text
from sottovoce._validation import MAX_EPSILON, MIN_DELTA, MIN_EPSILON, choice, magnitude, number, whole_number
from sottovoce.exceptions import ParameterError, PrivacyWarning
from sottovoce.papers.ldp.losses import GENERAL_LOSSES, RESIDUAL_LOSSES
from sottovoce.papers.ldp.noise import KINDS, CopyNoise, copies
from sottovoce.papers.ldp.oracle import Oracle

__all__ = ["BernsteinProtocol"]

_HEAD: Final = {"format": "sottovoce-local-protocol", "version": 1, "mechanism": "bernstein"}
_MOST_NOISE: Final = 2.0**20
_FINEST: Final = 2.0**-29  # y = 1 must fit in 32 bits of ticks, noise included
_MOST_NUMBERS: Final = 2**24  # in one report


@dataclass(frozen=True)
class BernsteinProtocol:
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
    noise : {"tight", "printed"}
        See `sottovoce.papers.ldp.noise`. ``"printed"`` does not keep epsilon and delta in general: it warns,
        and the receipt states what it really gives.
    data_norm : float, default 1.0
        Public bound on the norm of x; longer ones are shortened on the device. The constraint set is
        \|w\| <= 1 / data_norm.

    Attributes
    ----------
    first_std, other_std : float
        Noise of copy 0 and of the others, in units of ``data_norm``.
    tick : float
        The grid of the numbers in a report, a power of two.
    """

    loss: str
    n_features: int
    epsilon: float
    delta: float
    degree: int = 1
    beta: float = 0.25
    noise: str = "tight"
    data_norm: float = 1.0
    first_std: float = field(init=False)
    other_std: float = field(init=False)
    tick: float = field(init=False)

    def __post_init__(self) -> None:
        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        keep("loss", choice("loss", self.loss, ("hinge", *GENERAL_LOSSES, *RESIDUAL_LOSSES)))
        keep("n_features", whole_number("n_features", self.n_features, at_least=1))
        keep("epsilon", number("epsilon", self.epsilon, at_least=MIN_EPSILON, at_most=MAX_EPSILON))
        remedy = "Choose it well below 1 / people."
        keep("delta", number("delta", self.delta, at_least=MIN_DELTA, below=1.0, remedy=remedy))
        keep("degree", whole_number("degree", self.degree, at_least=1, at_most=100))
        keep("beta", number("beta", self.beta, above=0.0, at_most=1.0))
        keep("noise", choice("noise", self.noise, KINDS))
        keep("data_norm", magnitude("data_norm", self.data_norm))
        if not self.n_copies * (self.n_features + 1) <= _MOST_NUMBERS:
            raise ParameterError(
                f"a report of degree {self.degree} on {self.n_features} features would hold "
                f"{self.n_copies * (self.n_features + 1)} numbers: lower degree or n_features."
            )
        planned = CopyNoise.calibrated(self.noise, self.epsilon, self.delta, self.degree)
        for name in ("first_std", "other_std"):
            std = getattr(planned, name)
            keep(name, number(name, std, above=0.0, at_most=_MOST_NOISE, remedy="Raise epsilon, or lower degree."))
        keep("tick", _tick(planned))
        if self.noise == "printed":
            warnings.warn(
                f"noise='printed' is the noise of the paper, kept for reproduction: it claims epsilon={self.epsilon:g} "
                f"at delta={self.delta:g}, one report really costs epsilon={self.true_epsilon:.4g} there. "
                "Use noise='tight'.",
                PrivacyWarning,
                stacklevel=3,
            )

    @property
    def id(self) -> bytes:
        """The first 8 bytes of the SHA-256 of all parameters, by which a receipt names the protocol."""
        return hashlib.sha256(canonical_text(_HEAD | asdict(self)).encode("ascii")).digest()[:8]

    @property
    def regression(self) -> bool:
        """Whether labels are numbers in [-1, 1], and the loss is one of the residual."""
        return self.loss in RESIDUAL_LOSSES

    @property
    def n_copies(self) -> int:
        """Number of noisy copies in a report."""
        return copies(self.degree)

    @property
    def copy_noise(self) -> CopyNoise:
        """The noise, from which both the reports and the receipt are made."""
        return CopyNoise(self.degree, self.first_std, self.other_std)

    @property
    def true_epsilon(self) -> float:
        """What one report costs at ``delta``, exactly."""
        return self.copy_noise.epsilon(self.delta)

    @property
    def oracle(self) -> Oracle:
        """The polynomial surrogate of the loss."""
        if self.regression:
            return Oracle(self.degree, self.beta, RESIDUAL_LOSSES[self.loss](self.beta))
        return Oracle(self.degree, self.beta, GENERAL_LOSSES.get(self.loss))


def _tick(noise: CopyNoise) -> float:
    """Return the grid: at least what 32 bits hold with 9.2 standard deviations, at most a 64th of the least noise."""
    most = _power_of_two_below(min(noise.first_std, noise.other_std, 1.0)) / 64.0
    least = max(_power_of_two_below(max(noise.first_std, noise.other_std)) * 2.0**-26, _FINEST)
    return number("tick", max(least, min(most * 2.0**-14, 2.0**-20)), at_most=most, remedy="Lower epsilon.")


def _power_of_two_below(value: float) -> float:
    return math.ldexp(1.0, math.frexp(value)[1] - 1)
