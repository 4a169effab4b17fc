"""One report: the public parameters that everybody agrees on, and what a device makes of one person's (x, y).

A report is M noisy copies of the record in whole ticks of the protocol. The record is rounded toward zero to whole
ticks, so that its norm, checked in exact whole numbers, is at most 1. The noise is rounded to whole ticks too
(``docs/privacy/gaussian_on_a_grid.md``). Each number takes 64 bits of the operating system, one for the sign and 63 for
the tail probability, and the inverse normal distribution function of `sottovoce.local.candidates`.
"""

import hashlib
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce._plain_data import canonical_text
from sottovoce._validation import MAX_EPSILON, MIN_DELTA, MIN_EPSILON, choice, magnitude, number, whole_number
from sottovoce.exceptions import DataError, ParameterError, PrivacyWarning
from sottovoce.local.candidates import normal_quantile
from sottovoce.papers.ldp.noise import KINDS, CopyNoise, copies
from sottovoce.papers.ldp.surrogate import GENERAL_LOSSES, RESIDUAL_LOSSES, Oracle
from sottovoce.privacy.mechanisms.gaussian import power_of_two_below

_HEAD: Final = {"format": "sottovoce-local-protocol", "version": 1, "mechanism": "bernstein"}
_MOST_NOISE: Final = 2.0**20
_FINEST: Final = 2.0**-29  # y = 1 must fit in 32 bits of ticks, noise included
_MOST_NUMBERS: Final = 2**24  # in one report
_BATCH: Final = 2**21  # numbers drawn at a time


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
    """

    loss: str
    n_features: int
    epsilon: float
    delta: float
    degree: int = 1
    beta: float = 0.25
    noise: str = "tight"
    data_norm: float = 1.0
    first_std: float = field(init=False)  # noise of copy 0, in units of data_norm
    other_std: float = field(init=False)  # and of the others
    tick: float = field(init=False)  # the grid of the numbers in a report, a power of two

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
        loss = RESIDUAL_LOSSES[self.loss](self.beta) if self.regression else GENERAL_LOSSES.get(self.loss)
        return Oracle(self.degree, self.beta, loss)


def _tick(noise: CopyNoise) -> float:
    """Return the grid: at least what 32 bits hold with 9.2 standard deviations, at most a 64th of the least noise."""
    most = power_of_two_below(min(noise.first_std, noise.other_std, 1.0)) / 64.0
    least = max(power_of_two_below(max(noise.first_std, noise.other_std)) * 2.0**-26, _FINEST)
    return number("tick", max(least, min(most * 2.0**-14, 2.0**-20)), at_most=most, remedy="Lower epsilon.")


def bernstein_reports(
    protocol: BernsteinProtocol, X: ArrayLike, y: ArrayLike, *, random_bytes: Callable[[int], bytes] = os.urandom
) -> NDArray[np.int32]:
    """Return the reports of the devices of many people, one a person; a new one spends the budget again.

    They are whole ticks, of shape (n, n_copies, n_features + 1); y is the last column.

    Parameters
    ----------
    protocol : BernsteinProtocol
    X : array of shape (n, n_features)
        Finite; in the unit of ``data_norm``, and shortened to it where it is longer.
    y : array of shape (n,)
        -1 or 1. For a loss of residuals finite numbers; what is beyond [-1, 1] is moved to the end.
    random_bytes : callable, default `os.urandom`
        From a number of bytes to as many random ones. Anything but the default is for tests: whoever can repeat the
        bytes can subtract the noise.
    """
    record = _record(protocol, np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64))
    shape = (protocol.n_copies, protocol.n_features + 1)
    scales = (protocol.copy_noise.stds / protocol.tick)[:, None]
    out = np.empty((len(record), *shape), dtype=np.int32)
    step = max(1, _BATCH // (shape[0] * shape[1]))
    for start in range(0, len(record), step):
        part = record[start : start + step]
        normals = standard_normals(len(part) * shape[0] * shape[1], random_bytes).reshape(-1, *shape)
        # half up, as the proof of the Gaussian mechanism on a grid wants it
        noise = np.floor(normals * scales + 0.5).astype(np.int64)
        out[start : start + step] = part[:, None, :] + noise
    return out


def _record(protocol: BernsteinProtocol, X: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return (x, y) of each person in whole ticks, |x| <= 1 exactly."""
    if not (X.ndim == 2 and X.shape[1] == protocol.n_features and y.shape == X.shape[:1]):
        raise DataError(
            f"a record is {protocol.n_features} features and one label; got shapes {X.shape[1:]} and {y.shape[1:]}."
        )
    if not np.isfinite(X).all():
        raise DataError("a feature is not finite: fill missing values in on the device, from public knowledge.")
    if protocol.regression:
        if not np.isfinite(y).all():
            raise DataError("a label is not finite: a device without a label has no record to report.")
        y = np.clip(y, -1.0, 1.0)
    elif not np.isin(y, (-1.0, 1.0)).all():
        raise DataError("a label must be -1 or 1.")
    unit = X / protocol.data_norm
    largest = np.maximum(np.abs(unit).max(axis=1, keepdims=True), 1.0)  # no overflow in the squares
    norms = np.linalg.norm(unit / largest, axis=1, keepdims=True)
    unit = unit / largest / np.maximum(norms, 1.0 / largest)
    one = round(1.0 / protocol.tick)
    ticks = np.trunc(unit * one).astype(np.int64)
    while (long := (ticks**2).sum(axis=1) > one**2).any():  # only where rounding left a norm above 1
        ticks[long] -= np.sign(ticks[long])
    return np.column_stack([ticks, np.trunc(y * one).astype(np.int64)])


def standard_normals(size: int, random_bytes: Callable[[int], bytes]) -> NDArray[np.float64]:
    """Return ``size`` normal numbers from 64 bits each; the farthest is 9.2 standard deviations out."""
    bits = np.frombuffer(random_bytes(8 * size), dtype="<u8")
    tail = (bits >> np.uint64(1)).astype(np.float64)
    size_of = -normal_quantile((tail + 0.5) * 2.0**-64)
    return np.where(bits & np.uint64(1), size_of, -size_of)
