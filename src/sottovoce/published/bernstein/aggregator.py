"""The server, trusted by nobody: it collects reports and fits a linear model in one pass over them."""

import hashlib
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce._plain_data import digest
from sottovoce._validation import choice, whole_number
from sottovoce.exceptions import DataError, ParameterError, SottovoceWarning
from sottovoce.local.fits.receipts import device_receipt
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.large_delta import warn_of_large_delta
from sottovoce.published.bernstein.general_loss import GENERAL_LOSSES, GeneralLoss
from sottovoce.published.bernstein.oracle import Oracle
from sottovoce.published.bernstein.protocol import LOSSES, RESIDUALS, BernsteinProtocol
from sottovoce.published.bernstein.randomizer import HEAD, MAGIC
from sottovoce.published.bernstein.residual_loss import RESIDUAL_LOSSES, ResidualLoss
from sottovoce.published.bernstein.sigm import expected_noise_error, sigm
from sottovoce.published.bernstein.smoothing import hinge_half
from sottovoce.randomness import Purpose, Streams

__all__ = ["BernsteinAggregator", "BernsteinModel", "guarantee"]

_PROOF: Final = "docs/privacy/bernstein_reports.md"
_REACH: Final = 9.25  # standard deviations: no honest number is farther out


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


class BernsteinAggregator:
    """Collects the reports of a protocol and fits the model.

    Parameters
    ----------
    protocol : BernsteinProtocol

    Attributes
    ----------
    n_reports : int
        Reports that were taken.
    rejected : Counter
        How many bytes strings were refused, by reason: ``"length"``, ``"not a report"``, ``"other protocol"``,
        ``"impossible number"``, ``"repeated"`` (the same bytes came before: a device sends its one report again).

    Notes
    -----
    Reports are kept, 4 bytes a number, because SIGM needs them in random order.
    """

    def __init__(self, protocol: BernsteinProtocol) -> None:
        self._protocol = protocol
        self._reports: list[NDArray[np.int32]] = []
        self._seen: set[bytes] = set()
        self.rejected: Counter[str] = Counter()

    @property
    def n_reports(self) -> int:
        """Reports that were taken."""
        return sum(len(part) for part in self._reports)

    def add(self, reports: Iterable[bytes]) -> int:
        """Take reports, and return how many were taken; the others are counted in ``rejected``."""
        protocol = self._protocol
        size, own, begin = protocol.report_size, protocol.id, HEAD.size
        taken: list[bytes] = []
        digests: list[bytes] = []
        for report in reports:
            if len(report) != size:
                self.rejected["length"] += 1
                continue
            magic, protocol_id = HEAD.unpack_from(report)
            digest = hashlib.sha256(report).digest()[:16]
            if magic != MAGIC:
                self.rejected["not a report"] += 1
            elif protocol_id != own:
                self.rejected["other protocol"] += 1
            elif digest in self._seen:
                self.rejected["repeated"] += 1
            else:
                self._seen.add(digest)
                digests.append(digest)
                taken.append(report[begin:])
        if not taken:
            return 0
        shape = (len(taken), protocol.n_copies, protocol.n_features + 1)
        numbers = np.frombuffer(b"".join(taken), dtype="<i4").reshape(shape).astype(np.int32)
        within = np.abs(numbers.astype(np.int64)) <= self._largest[:, None]
        good: NDArray[np.bool_] = np.asarray(within.reshape(len(taken), -1).all(axis=1))
        if not good.all():
            self.rejected["impossible number"] += int((~good).sum())
            self._seen -= {digest for digest, fine in zip(digests, good, strict=True) if not fine}
            numbers = numbers[good]
        self._reports.append(numbers)
        return len(numbers)

    def merge(self, other: "BernsteinAggregator") -> None:
        """Take over the reports of another aggregator of the same protocol; each report counts once.

        Raises
        ------
        ParameterError
            If the protocols differ.
        """
        if other._protocol != self._protocol:
            raise ParameterError("other must be an aggregator of the same protocol.")
        head = HEAD.pack(MAGIC, self._protocol.id)
        rejected = other.rejected.copy()
        self.add(head + report.astype("<i4").tobytes() for part in other._reports for report in part)
        self.rejected.update(rejected)

    def fit(
        self,
        *,
        loss: str | GeneralLoss | ResidualLoss | None = None,
        order: int | None = None,
        random_state: object = None,
    ) -> BernsteinModel:
        """Fit the model by one pass of SIGM over the reports in random order.

        Parameters
        ----------
        loss : str, GeneralLoss or ResidualLoss, optional
            Another loss than the protocol's: devices do not depend on it, so the reports serve for any of the same
            kind of label.
        order : int, optional
            Another order of the iterated Bernstein operator than the protocol's.
        random_state : None, int or numpy generator
            For the order and Algorithm 2's s. Privacy does not rest on it: the reports are already private.

        Raises
        ------
        DataError
            If there is no report.
        """
        protocol, n = self._protocol, self.n_reports
        if n == 0:
            raise DataError("there are no reports to fit a model to: add some.")
        oracle = self._oracle(loss, protocol.order if order is None else order)
        std = oracle.gradient_std(protocol.copy_noise, protocol.n_features)
        noise_error = expected_noise_error(std, n)
        trivial = _most_to_gain(oracle)
        if not noise_error < trivial:
            warnings.warn(_swamped(n, noise_error, trivial), SottovoceWarning, stacklevel=2)
        random = Streams(random_state).generator(Purpose.SHUFFLING)
        turns = random.permutation(n).astype(np.int64)
        shares: NDArray[np.float64] = 2.0**-52 * (random.integers(2**52, size=n).astype(np.float64) + 0.5)
        weights = sigm(self._joined(), protocol.tick, oracle, std, turns, shares)
        warn_of_large_delta(protocol.delta, n)  # too late to refuse: the devices have spent it
        coef = weights / protocol.data_norm
        return BernsteinModel(
            coef, guarantee(protocol, n, digest(coef.tolist())), n, std, noise_error, protocol.regression
        )

    @property
    def _largest(self) -> NDArray[np.float64]:
        return np.ceil((1.0 + _REACH * self._protocol.copy_noise.stds) / self._protocol.tick)

    def _joined(self) -> NDArray[np.int32]:
        if len(self._reports) > 1:
            self._reports = [np.concatenate(self._reports)]
        return self._reports[0]

    def _oracle(self, loss: str | GeneralLoss | ResidualLoss | None, order: int) -> Oracle:
        protocol = self._protocol
        order = whole_number("order", order, at_least=1)
        if isinstance(loss, GeneralLoss | ResidualLoss):
            if isinstance(loss, ResidualLoss) != protocol.regression:
                raise ParameterError(
                    f"the loss {loss.name!r} does not go with the labels of loss={protocol.loss!r}: a residual needs "
                    "numbers in [-1, 1], a margin -1 or 1. Collect with a protocol of the same kind of loss."
                )
            return Oracle(protocol.degree, protocol.beta, loss, order)
        if loss is None:
            loss = protocol.loss
        if protocol.regression:
            chosen = RESIDUAL_LOSSES[choice("loss", loss, RESIDUALS)](protocol.beta)
            return Oracle(protocol.degree, protocol.beta, chosen, order)
        return Oracle(protocol.degree, protocol.beta, GENERAL_LOSSES.get(choice("loss", loss, LOSSES)), order)


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
            "loss": protocol.loss,
            "n_features": protocol.n_features,
            "degree": protocol.degree,
            "beta": protocol.beta,
            **({"order": protocol.order} if protocol.order > 1 else {}),
            "noise": protocol.noise,
            "claimed epsilon": protocol.epsilon,
            "data_norm": protocol.data_norm,
            "noise of copy 0": protocol.first_std,
            "noise of the other copies": protocol.other_std,
            "reports": n_reports,
        },
        accountant="exact Gaussian differential privacy",
        proof=_PROOF,
        model=model,
    )


def _swamped(n: int, noise_error: float, trivial: float) -> str:
    """Return what is told where w = 0 is as good as what the noise leaves of a model."""
    if trivial == 0.0:
        return (
            "the loss is least at u = 0, so no model is better than w = 0, and noise makes any other worse: take a "
            "loss that asks for something."
        )
    return (
        f"the noise swamps {n} reports: its part of the error bound, {noise_error:.3g}, is not less than the "
        f"{trivial:.3g} that w = 0 can be wrong by. About {n * (noise_error / (0.1 * trivial)) ** 2:.1e} reports, a "
        "larger epsilon or a lower degree are needed."
    )


def _most_to_gain(oracle: Oracle) -> float:
    """Return the most by which any model can beat w = 0: f(0), of a residual f(1) or f(-1), less min f on [-1, 1]."""
    u = np.linspace(-1.0, 1.0, 401)
    values = hinge_half(u) if oracle.loss is None else np.asarray(oracle.loss.value(u), dtype=np.float64)
    trivial = max(values[0], values[-1]) if oracle.residual else values[200]
    return float(trivial - values.min())
