r"""Newton steps with fresh slopes inside: for engines that cannot compare.

With P(u) = -l'(u) for a label of 1, a row pulls by y P(y z) = y / 2 + y (P(y z) - 1/2). The sum of y x is released once
with the second moments; each of three passes releases the rest, at most some 1/2 a row, with P replaced by the cubic
that fits it best on [-Z, Z]: y (P(y z) - 1/2) = y (c_0 + c_2 z^2) + c_1 z + c_3 z^3. Each of M parties cuts its own
margins at Z / M, so the polynomial is not asked beyond Z, and its largest value there is public.

The noisy second moments are a preconditioner, and the last two of three points are averaged. A logistic model is given
a slope and a shift at the end (`sottovoce.vertical.protocols.secure.calibration`).
"""

import math
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.linalg import eigh

from sottovoce._numerics import Vector
from sottovoce.losses import Logistic, Loss
from sottovoce.vertical.engines.programs import AddSlopes
from sottovoce.vertical.protocols.secure.calibration import Opened, calibrated
from sottovoce.vertical.protocols.secure.training import LEAST_ALPHA, Passes, Training
from sottovoce.vertical.protocols.secure.whole_rows import ROW, SQUARE, longest

if TYPE_CHECKING:
    from sottovoce.vertical.protocols.secure.joint_plan import JointPlan

_SHARES: Final = (0.25, 0.25, 0.5)  # of mu^2: the labels' correlations, the second moments, the passes
_PASSES: Final = 3
_RANGE_LOGISTIC: Final = 8.0  # Z
_RANGE_HINGE: Final = 3.0
_SLOPE: Final = 2**28
_MARGIN: Final = 2**4
_STEEPNESS: Final = 0.7  # c over the polynomial's slope at 0
_EDGE: Final = 2.0  # kappa: sqrt(d) times the noise of the second moments are added to their eigenvalues
_PENALTY: Final = 0.1  # times 1 / mu


class SlopePasses(Training):
    """The second moments with the labels' correlations, and three passes."""

    def __init__(self, plan: "JointPlan", loss: Loss) -> None:
        self.plan, self.loss, self.with_labels = plan, loss, True
        n_passes = _PASSES if plan.n_passes is None else plan.n_passes
        length = longest()
        for_labels, for_moments, for_passes = (plan.mu * math.sqrt(share) for share in _SHARES)
        self.labels = plan.shared(4 * length, for_labels)
        self.moments = plan.shared(2 * length**2, for_moments)
        reach = _RANGE_LOGISTIC if isinstance(loss, Logistic) else _RANGE_HINGE
        self.margin_unit, self.margin_bound = _MARGIN, math.floor(reach * _MARGIN / len(plan.blocks))
        self.coefficients, self.steepness = _cubic(loss, reach)
        self.most = _largest(self.coefficients, len(plan.blocks) * self.margin_bound)
        self.noises = (plan.shared(4 * self.most**2 * length, for_passes / math.sqrt(n_passes)),) * n_passes
        self.largest = max(length, self.most * ROW)

    def program(self, step: int) -> AddSlopes:
        return AddSlopes(self.coefficients)

    def passes(self, matrix: Vector, correlations: Vector, chosen: dict[str, object]) -> Passes:
        values, vectors = eigh(matrix)
        edge = _EDGE * math.sqrt(len(matrix)) * self.moments.total_std() / SQUARE
        lifted = (vectors * (np.maximum(values, 0.0) + edge)) @ vectors.T
        penalties = np.maximum(self.plan.penalties, self.least_penalty)
        preconditioner = self.steepness * lifted + np.diag(penalties)
        chosen[LEAST_ALPHA] = self.least_penalty / self.plan.n_samples
        pull = 0.5 * correlations[:-1] / ROW
        point, points = np.linalg.solve(preconditioner, pull), []
        for _ in self.noises:
            left = pull + (yield point) / (ROW * _SLOPE)
            step = np.linalg.solve(preconditioner, left - penalties * point)
            point = point + step
            points.append(point)
        averaged = points[len(points) // 2 :]
        weights = np.asarray(np.mean(averaged, axis=0))
        if not (isinstance(self.loss, Logistic) and self.plan.constant):
            return weights
        assert self.labels is not None
        of_labels, of_pass = 0.5 * self.labels.total_std() / ROW, self.noises[0].total_std() / (ROW * _SLOPE)
        moved = step - (point - weights)  # from where the last pass asked
        opened = Opened(
            matrix=matrix,
            matrix_noise=self.moments.total_std() / SQUARE,
            constant=self.plan.constant / ROW,
            n_samples=self.plan.n_samples,
            left=left - preconditioner @ moved + penalties * moved,
            noise=math.hypot(of_labels, of_pass / math.sqrt(len(averaged))),
            answer=np.linalg.inv(preconditioner),
        )
        return calibrated(weights, opened, self._slope)

    def _slope(self, predictions: Vector) -> Vector:
        """Return what stands for sigmoid - 1/2."""
        steps = np.clip(predictions, -_RANGE_LOGISTIC, _RANGE_LOGISTIC) * _MARGIN
        return -np.polynomial.polynomial.polyval(steps, self.coefficients) / _SLOPE

    @cached_property
    def least_penalty(self) -> float:
        """With little mu the noise asks for at least this Lambda."""
        return _PENALTY * self.plan.noise_factor / self.plan.mu

    def details(self) -> dict[str, object]:
        assert self.labels is not None
        return {
            "mu (Gaussian DP) of the labels' correlations": self.labels.mu,
            "mu of the second moments": self.moments.mu,
            "mu of the passes": self.noises[0].mu * math.sqrt(len(self.noises)),
            "passes": len(self.noises),
            "margins of a party cut at": self.margin_bound / self.margin_unit,
        }


def _cubic(loss: Loss, reach: float) -> tuple[tuple[int, int, int, int], float]:
    """Return the best cubic for P - 1/2 on [-Z, Z] in whole numbers, and c, which stands for its slope."""
    u = np.linspace(-reach, reach, 4001)
    powers = np.stack([np.ones_like(u), u, u**2, u**3], axis=1)
    wanted = -loss.derivative(np.ones_like(u), u) - 0.5
    fitted = np.linalg.lstsq(powers, wanted, rcond=None)[0]
    whole = tuple(round(float(value) * _SLOPE / _MARGIN**power) for power, value in enumerate(fitted))
    return whole, _STEEPNESS * abs(float(fitted[1]))


def _largest(coefficients: tuple[int, int, int, int], bound: int) -> int:
    """Return the largest slope in absolute value over whole margins within the bound; exact.

    A label of -1 gives at z what +1 gives at -z, with the other sign: one label is enough.
    """
    free, linear, quadratic, cubic = coefficients
    return max(abs(free + linear * z + quadratic * z**2 + cubic * z**3) for z in range(-bound, bound + 1))
