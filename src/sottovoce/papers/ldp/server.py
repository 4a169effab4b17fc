"""The server, trusted by nobody: it fits a linear model in one pass over the reports."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce._plain_data import digest
from sottovoce.exceptions import DataError, SottovoceWarning
from sottovoce.papers.ldp.oracle import Oracle
from sottovoce.papers.ldp.polynomial import hinge_half
from sottovoce.papers.ldp.protocol import BernsteinProtocol
from sottovoce.papers.ldp.receipts import guarantee
from sottovoce.papers.ldp.sigm import expected_noise_error, sigm
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.large_delta import warn_of_large_delta
from sottovoce.randomness import Purpose, Streams

__all__ = ["BernsteinModel", "fit_reports"]


@dataclass(frozen=True)
class BernsteinModel:
    """A fitted linear model.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of features as they come, within the ball of radius 1 / data_norm.
    guarantee_ : Guarantee
        What each person was promised, accounted again.
    n_reports_ : int
    gradient_std_ : float
        sigma of SIGM's steps, from public parameters.
    noise_error_ : float
        The part of SIGM's bound on the expected excess risk that is due to noise.
    regression_ : bool
        Whether labels are numbers in [-1, 1].
    """

    coef_: NDArray[np.float64]
    guarantee_: Guarantee
    n_reports_: int
    gradient_std_: float
    noise_error_: float
    regression_: bool = False

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return <w, x> of each row."""
        table = np.asarray(X, dtype=np.float64)
        if not (table.ndim == 2 and table.shape[1] == len(self.coef_)):
            raise DataError(f"X must have {len(self.coef_)} columns; got shape {table.shape}.")
        scores: NDArray[np.float64] = table @ self.coef_
        return scores

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
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
    reports : ndarray of shape (n, n_copies, n_features + 1), int32
        From `bernstein_reports`, one a person.
    random_state : None, int or numpy generator
        For the order and Algorithm 2's s. Privacy does not rest on it: the reports are already private.

    Raises
    ------
    DataError
        If there is no report, or the reports are not of this protocol's shape.
    """
    n, shape = len(reports), (protocol.n_copies, protocol.n_features + 1)
    if not (n > 0 and reports.shape[1:] == shape and reports.dtype == np.int32):
        raise DataError(f"reports must be whole numbers of shape (n, {shape[0]}, {shape[1]}), n >= 1.")
    oracle = protocol.oracle
    std = oracle.gradient_std(protocol.copy_noise, protocol.n_features)
    noise_error = expected_noise_error(std, n)
    trivial = _most_to_gain(oracle)
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
    shares: NDArray[np.float64] = 2.0**-52 * (random.integers(2**52, size=n).astype(np.float64) + 0.5)
    weights = sigm(reports, protocol.tick, oracle, std, turns, shares)
    warn_of_large_delta(protocol.delta, n)  # too late to refuse: the devices have spent it
    coef = weights / protocol.data_norm
    receipt = guarantee(protocol, n, digest(coef.tolist()))
    return BernsteinModel(coef, receipt, n, std, noise_error, protocol.regression)


def _most_to_gain(oracle: Oracle) -> float:
    """Return the most by which any model can beat w = 0: f(0), of a residual f(1) or f(-1), less min f on [-1, 1]."""
    u = np.linspace(-1.0, 1.0, 401)
    values = hinge_half(u) if oracle.loss is None else np.asarray(oracle.loss.value(u), dtype=np.float64)
    trivial = max(values[0], values[-1]) if oracle.residual else values[200]
    return float(trivial - values.min())
