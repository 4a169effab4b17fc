r"""The server, trusted by nobody: it fits a linear model in one pass over the reports, and writes the receipt.

The pass is the stochastic intermediate gradient method (SIGM) of Dvurechensky and Gasnikov (2016, J. Optim. Theory
Appl. 171), one report a step, in the unit ball. Their parameter p = 1 (weights alpha_i = 1, A_k = k + 1), as the
journal version of the paper restates it in its Algorithms 4, 5 and 9:

.. math::

    b_k = L + 2^{3/4} \frac{\sigma}{R} \sqrt{k + 2}, \quad
    z_k = \Pi\Big(-\frac{1}{b_k} \sum_{i \le k} G_i(x_i)\Big), \quad x_{k+1} = z_k, \quad
    \bar y = \operatorname{mean}_k \, \Pi\big(z_{k-1} - G_k(x_k) / b_k\big),

with x_0 = z_{-1} = 0 and R = 1. L is the smoothness of the surrogate and sigma a bound on the root mean square of G,
both from public parameters (`Oracle.smoothness`, `Oracle.gradient_std`). After k steps the expected excess risk of the
surrogate is at most about L / k + 1.44 sigma / sqrt(k).
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce._compiling import njit
from sottovoce._plain_data import digest
from sottovoce._validation import warn_of_large_delta, whole_number
from sottovoce.exceptions import DataError, ModelFormatError, SottovoceWarning
from sottovoce.local.fits.receipts import device_receipt
from sottovoce.papers.ldp.report import BernsteinProtocol
from sottovoce.papers.ldp.surrogate import Oracle
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.randomness import Purpose, Streams

Array = NDArray[np.float64]

STEP_FACTOR: Final = 2.0**0.75
_NAMES: Final = ("loss", "n_features", "degree", "beta", "noise")
_SAME: Final = 1e-9  # relative; the last digits may differ between machines


@dataclass(frozen=True)
class BernsteinModel:
    """A fitted linear model."""

    coef_: Array  # weights of features as they come, within the ball of radius 1 / data_norm
    guarantee_: Guarantee  # what each person was promised, accounted again
    n_reports_: int
    gradient_std_: float  # sigma of SIGM's steps, from public parameters
    noise_error_: float  # the part of SIGM's bound on the expected excess risk that is due to noise
    regression_: bool = False  # whether labels are numbers in [-1, 1]

    def decision_function(self, X: ArrayLike) -> Array:
        """Return <w, x> of each row."""
        table = np.asarray(X, dtype=np.float64)
        if not (table.ndim == 2 and table.shape[1] == len(self.coef_)):
            raise DataError(f"X must have {len(self.coef_)} columns; got shape {table.shape}.")
        return np.asarray(table @ self.coef_)

    def predict(self, X: ArrayLike) -> Array:
        """Return -1 or 1 for each row, or a number in [-1, 1] after a regression."""
        if self.regression_:
            return np.clip(self.decision_function(X), -1.0, 1.0)
        return np.where(self.decision_function(X) > 0.0, 1.0, -1.0)


def fit_reports(
    protocol: BernsteinProtocol, reports: NDArray[np.int32], *, random_state: object = None
) -> BernsteinModel:
    """Fit the model by one pass of SIGM over the reports in random order.

    Parameters
    ----------
    protocol : BernsteinProtocol
    reports : ndarray of shape (n, n_copies, n_features + 1), int32, n >= 1
        From `bernstein_reports`, one a person.
    random_state : None, int or numpy generator
        For the order and Algorithm 2's s. Privacy does not rest on it: the reports are already private.
    """
    n, shape = len(reports), (protocol.n_copies, protocol.n_features + 1)
    if not (n > 0 and reports.shape[1:] == shape and reports.dtype == np.int32):
        raise DataError(f"reports must be whole numbers of shape (n, {shape[0]}, {shape[1]}), n >= 1.")
    oracle = protocol.oracle
    std = oracle.gradient_std(protocol.copy_noise, protocol.n_features)
    noise_error = expected_noise_error(std, n)
    values = oracle.value(np.linspace(-1.0, 1.0, 401))
    # the most by which any model can beat w = 0: f(0), of a residual f(1) or f(-1), less min f on [-1, 1]
    trivial = float((max(values[0], values[-1]) if oracle.residual else values[200]) - values.min())
    if not noise_error < trivial:
        warnings.warn(
            f"the noise swamps {n} reports: its part of the error bound, {noise_error:.3g}, is not less than the "
            f"{trivial:.3g} that w = 0 can be wrong by. About {n * (noise_error / (0.1 * trivial)) ** 2:.1e} reports, "
            "a larger epsilon or a lower degree are needed.",
            SottovoceWarning,
            stacklevel=2,
        )
    random = Streams(random_state).generator(Purpose.SHUFFLING)
    turns = random.permutation(n).astype(np.int64)
    shares: Array = 2.0**-52 * (random.integers(2**52, size=n).astype(np.float64) + 0.5)
    weights = sigm(reports, protocol.tick, oracle, std, turns, shares)
    warn_of_large_delta(protocol.delta, n)  # too late to refuse: the devices have spent it
    coef = weights / protocol.data_norm
    receipt = guarantee(protocol, n, digest(coef.tolist()))
    return BernsteinModel(coef, receipt, n, std, noise_error, protocol.regression)


# --- the pass ---------------------------------------------------------------------------------------------------------


def sigm(
    reports: NDArray[np.int32], tick: float, oracle: Oracle, std: float, turns: NDArray[np.int64], shares: Array
) -> Array:
    """Return the weights after one pass over the reports, within the unit ball.

    ``reports`` are whole ticks, of shape (n, M, d + 1) with y last; ``std`` is sigma; ``turns`` says which report each
    step takes; ``shares`` holds one uniform number a report, for s of Algorithm 2.
    """
    shifts, noise = oracle.shifts(shares), STEP_FACTOR * std
    return np.asarray(_pass(reports, _bracket(oracle, tick), shifts, oracle.smoothness, noise, turns))


def expected_noise_error(gradient_std: float, n: int) -> float:
    """Return the part of the bound on SIGM's expected excess risk that is due to noise, 1.44 sigma / sqrt(n)."""
    return (0.5 * STEP_FACTOR + 1.0 / STEP_FACTOR) * gradient_std / math.sqrt(n)


class _Bracket(NamedTuple):
    """What the compiled loops know of the oracle, and the unit of a report's numbers."""

    weighted: Array
    slope: float
    scale: float
    offset: float
    tick: float
    residual: bool


def _bracket(oracle: Oracle, tick: float) -> _Bracket:
    return _Bracket(oracle.weighted, oracle.slope, oracle.scale, oracle.offset, tick, oracle.residual)


@njit(cache=True)
def _gradient(report: Any, q: _Bracket, shift: float, w: Any, out: Any) -> None:
    degree = len(q.weighted) - 1
    d = len(w)
    total = 0.0
    row = 1
    for j in range(degree + 1):
        term = q.weighted[j]
        for k in range(degree):
            product = 0.0
            for i in range(d):
                product += w[i] * report[row, i]
            if q.residual:
                v = shift + q.slope * ((product - report[row, d]) * q.tick)
            else:
                v = shift + q.slope * (product * q.tick) * (report[row, d] * q.tick)
            term *= v if k < j else 1.0 - v
            row += 1
        total += term
    factor = (q.scale * total + q.offset) * (1.0 if q.residual else report[0, d] * q.tick) * q.tick
    for i in range(d):
        out[i] = factor * report[0, i]


@njit(cache=True)
def _project(v: Any) -> None:
    norm = math.sqrt(np.sum(v * v))
    if norm > 1.0:
        v /= norm


@njit(cache=True)
def _pass(reports: Any, q: _Bracket, shifts: Array, smoothness: float, noise: float, order: Any) -> Any:
    d = reports.shape[2] - 1
    gradient, total, z, mean, moved = np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d)
    for k in range(len(order)):
        b = smoothness + noise * math.sqrt(k + 2.0)
        i = order[k]
        _gradient(reports[i], q, shifts[i], z, gradient)
        moved[:] = z - gradient / b
        _project(moved)
        mean += (moved - mean) / (k + 1.0)
        total += gradient
        z[:] = -total / b
        _project(z)
    return mean


# --- the receipt ------------------------------------------------------------------------------------------------------


def guarantee(protocol: BernsteinProtocol, n_reports: int, model: str | None = None) -> Guarantee:
    """Return the receipt of a collection: each person's only report, accounted from the noise that devices add."""
    true = protocol.true_epsilon
    claimed = (
        f"The paper claims epsilon = {protocol.epsilon:g} for this noise; one report really costs {true:.6g} at the "
        f"same delta{', more than claimed' if true > protocol.epsilon else ''}."
    )
    return device_receipt(
        epsilon=protocol.epsilon if protocol.noise == "tight" else true,
        delta=protocol.delta,
        unit="one person's record (x, y), label included, in the local model: against everybody, the server included",
        mechanism=(
            f"Bernstein reports (Wang, Smith, Xu 2019), {protocol.noise} noise: {protocol.n_copies} copies of (x, y), "
            "one Gaussian release"
        ),
        releases=(f"each person's only report: {protocol.n_copies} noisy copies of the record",),
        event=protocol.copy_noise.event,
        assumptions=(
            "every parameter of the protocol is public and was chosen without looking at the data",
            "a device makes one report, from random bytes of its operating system, and only ever sends that one",
        ),
        not_covered=(claimed,) if protocol.noise == "printed" else (),
        second_report="k of them cost k of these events, composed",
        parameters={
            "protocol": protocol.id.hex(),
            **{name: getattr(protocol, name) for name in _NAMES},
            "claimed epsilon": protocol.epsilon,
            "data_norm": protocol.data_norm,
            "noise of copy 0": protocol.first_std,
            "noise of the other copies": protocol.other_std,
            "reports": n_reports,
        },
        accountant="exact Gaussian differential privacy",
        proof="docs/privacy/bernstein_reports.md",
        model=model,
    )


def verify_receipt(path: str | Path) -> Guarantee:
    """Return the receipt of a file, if it is one that a collection of Bernstein reports gets.

    Event, promise and every word are made again from the parameters and compared. Day, ledger entry, model and
    signature follow from nothing else in the file.

    Raises
    ------
    ModelFormatError
        If the file is damaged, or says what such a collection does not; the message names it.
    """
    from sottovoce.report import read_receipt

    receipt = read_receipt(path)
    parameters: Mapping[str, Any] = receipt.parameters
    try:
        given = {name: parameters[name] for name in (*_NAMES, "data_norm")}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the person who verifies is not the one who chose
            protocol = BernsteinProtocol(epsilon=parameters["claimed epsilon"], delta=receipt.delta, **given)
        again = guarantee(protocol, whole_number("reports", parameters["reports"], at_least=1), receipt.model)
    except Exception as error:  # a stranger's parameters may lead anywhere; what they lead to is not a receipt of ours
        raise ModelFormatError(f"{path}: no collection of Bernstein reports has these parameters: {error!r}") from None
    free = {name: getattr(receipt, name) for name in ("day", "charge", "schema", "signature", "version")}
    found, wanted = receipt.to_dict(), replace(again, **free).to_dict()
    wrong = [name for name in wanted if name != "checksum" and not _same(found.get(name), wanted[name])]
    if wrong:
        raise ModelFormatError(f"{path}: not what such a collection gets: {', '.join(wrong)}.")
    return receipt


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _SAME * abs(other)
    return bool(one == other)
