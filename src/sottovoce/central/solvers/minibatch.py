r"""Mini-batch DP-SCD with secret dual variables, on Poisson samples.

Step t samples each row with probability q = L / n on its own, takes the exact coordinate step of each sampled row at
the released w, clips |zeta_i| |x_i| <= C_t, and releases v <- v + sum zeta_i x_i + N(0, (s C_t)^2 I). The dual
variables are the curator's memory: a row's step may depend on how often it was sampled before, which is secret. Theorem
2 of ``docs/privacy/dp_scd.md`` shows that the released sequence is still dominated by T Poisson-subsampled Gaussian
mechanisms of sensitivity C_t, which is what the accountant composes.

q, T and s are fixed by public facts alone, before any release, because subsampled mechanisms whose parameters depend on
earlier releases would need another composition theorem. What lambda_max and the label scale decide is C_t, to which the
noise is proportional.

Differences from the paper [1]_: Poisson samples; no noise on the duals; sensitivity C and not sqrt(2) C; the
aggregation constant is 1 + (L - 1) lambda_max in place of L; the average of the last w's is returned.

References
----------
.. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Algorithm 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import number
from sottovoce.central.kernels import passes
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Progress, Solution
from sottovoce.central.rows import Rows
from sottovoce.central.sampling import poisson_sample, refuse_rare_samples, sampled_noise, sampled_steps
from sottovoce.central.scaled_plan import ScaledPlan, Scales, sum_mechanism
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event, PoissonSampledEvent, RepeatedEvent, compose
from sottovoce.randomness import Purpose, Streams

__all__ = ["MinibatchPlan"]

_AVERAGED: Final = 0.4  # share of the steps, the last ones, that the model is averaged over
_TYPICAL_EIGENVALUE: Final = 0.5  # public guess of lambda_max for the size of a batch and the number of epochs
_MIN_EPOCHS: Final = 3.0
_MAX_EPOCHS: Final = 200.0


@dataclass(frozen=True, kw_only=True)
class MinibatchPlan(ScaledPlan):
    """Plan of mini-batch DP-SCD with secret dual variables.

    Parameters
    ----------
    batch_size : float or None
        Expected size L >= 1 of a batch (all rows when larger than n_samples); None follows a rule.
    epochs : float or None
        Expected number of times that a row is sampled; None follows a rule.
    """

    batch_size: float | None = None
    epochs: float | None = None

    def __post_init__(self) -> None:
        if self.adjacency is Adjacency.REPLACE_ONE:
            raise ParameterError(
                "adjacency must be 'zero-out' or 'add-remove' for solver='minibatch-scd': there is no tight accountant "
                "for replacing a row under Poisson sampling here; got 'replace-one'. Use solver='scd', which does not "
                "sample."
            )
        if self.batch_size is not None:
            number("batch_size", self.batch_size, at_least=1.0)
        if self.epochs is not None:
            number("epochs", self.epochs, above=0.0, at_most=1e6)
        if self.is_private:
            refuse_rare_samples(self.sampling_rate, self.n_steps * self.n_models)

    @property
    def solver(self) -> str:
        """Name of the solver as users give it."""
        return "minibatch-scd"

    @cached_property
    def expected_size(self) -> float:
        """Expected size of a batch."""
        n = self.n_samples
        if self.batch_size is not None:
            return min(self.batch_size, float(n))
        noise_limited = 5.0 * math.sqrt(self.n_weights) / (_rule(self)[0] * self._mu_model)
        useful = 1.0 + (noise_limited - self.alpha_scaled * n) / _TYPICAL_EIGENVALUE
        return max(1.0, min(n / 10.0, max(2.0 * math.sqrt(n), useful)))

    @property
    def sampling_rate(self) -> float:
        """Probability that a step uses a given row."""
        return min(1.0, self.expected_size / self.n_samples)

    @cached_property
    def n_steps(self) -> int:
        """Number of steps of each model."""
        epochs = self.epochs
        if epochs is None:
            slope, cap, _ = _rule(self)
            alpha_n = self.alpha_scaled * self.n_samples
            aggregation = 1.0 + (self.expected_size - 1.0) * _TYPICAL_EIGENVALUE
            step = alpha_n / (alpha_n + aggregation)
            wanted = slope * self._mu_model * (alpha_n + aggregation) / math.sqrt(self.n_weights)
            epochs = min(_MAX_EPOCHS, max(_MIN_EPOCHS, wanted), max(_MIN_EPOCHS, cap / step))
        return max(1, round(epochs / self.sampling_rate))

    @property
    def _mu_model(self) -> float:
        return self.mu_steps / math.sqrt(self.n_models)

    @property
    def noise_multiplier(self) -> float:
        """Noise of a step divided by its sensitivity: the least that keeps the budget of the whole run."""
        return sampled_noise(
            self.scale_events, self.sampling_rate, self.n_steps * self.n_models, self.epsilon, self.delta, self.mu_steps
        )

    @property
    def event(self) -> Event:
        """The scales and the steps."""
        return sampled_steps(self.scale_events, self.sampling_rate, self.n_steps * self.n_models, self.noise_multiplier)

    def details(self) -> dict[str, object]:
        """Return the sampling and the noise."""
        return {
            "mu for lambda_max": self.mu_scale,
            "mu for the labels": self.mu_scale if self.estimates_labels else 0.0,
            "expected batch size": self.expected_size,
            "sampling rate": self.sampling_rate,
            "steps of each model": self.n_steps,
            "noise multiplier of a step": self.noise_multiplier,
        }

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        return (
            "mini-batch DP-SCD with secret dual variables: adaptive composition of Poisson-subsampled Gaussian "
            "mechanisms on a grid"
        )

    @property
    def releases(self) -> tuple[str, ...]:
        """What the statement covers, for the receipt."""
        return (*self.scale_releases, "the weights after every step (the model is an average of them)")

    def solve(
        self, rows: Rows, targets: list[NDArray[np.float64]], streams: Streams, team: Team, progress: Progress
    ) -> Solution:
        """Train one model for each target as planned."""
        _ = self.noise_multiplier  # calibrated from public facts before anything is released
        scales = self.release_scales(rows, targets, streams.generator(Purpose.NOISE))
        weights, events = [], list(scales.events)
        for model, y in enumerate(targets):

            def report(step: int, done: int = model * self.n_steps) -> None:
                progress(done + step, self.n_steps * self.n_models)

            w, spent = self._train(rows, y - scales.location, scales, streams, team, report)
            weights.append(w)
            events.append(spent)
        return Solution(np.stack(weights), self.n_steps, compose(*events), scales.chosen(self), offset=scales.location)

    def _train(
        self,
        rows: Rows,
        y: NDArray[np.float64],
        scales: Scales,
        streams: Streams,
        team: Team,
        report: Callable[[int], None],
    ) -> tuple[NDArray[np.float64], Event]:
        noise, sampling = streams.generator(Purpose.NOISE), streams.generator(Purpose.SAMPLING)
        alpha_n = self.alpha_scaled * self.n_samples
        shared = (self.expected_size - 1.0) * scales.eigenvalue
        first_clip = scales.label * alpha_n / (alpha_n + 1.0 + shared)
        last_fraction = _rule(self)[2]
        a, v, total = np.zeros(rows.n_samples), np.zeros(self.n_weights), np.zeros(self.n_weights)
        averaged = max(1, round(_AVERAGED * self.n_steps))
        step_work = rows.work * self.sampling_rate
        for step in range(self.n_steps):
            clip = first_clip * (last_fraction + (1.0 - last_fraction) * (1.0 - step / self.n_steps))
            mechanism = sum_mechanism(self.adjacency, clip, self.noise_multiplier)
            batch = poisson_sample(rows.n_samples, self.sampling_rate, sampling)
            ranges = team.split(len(batch), step_work)
            sums = np.zeros((len(ranges), self.n_weights), np.int64)
            w = rows.weights(v / alpha_n)

            def one_range(
                part: int, lo: int, hi: int, w: NDArray[Any] = w, batch: NDArray[np.int64] = batch,
                clip: float = clip, ticks: float = 1.0 / mechanism.tick, sums: NDArray[np.int64] = sums,
            ) -> None:  # fmt: skip
                passes.batch_pass(
                    rows.kernel, rows.scale, rows.norm, rows.constant, y, a, w, shared / alpha_n, 1.0 / alpha_n, clip,
                    ticks, self.loss, batch, lo, hi, sums[part],
                )  # fmt: skip

            team.run(one_range, ranges)
            noisy, _ = mechanism.release(sums.sum(axis=0), noise)
            v = v + noisy
            if step >= self.n_steps - averaged:
                total += v
            report(step + 1)
        spent = RepeatedEvent(PoissonSampledEvent(self.sampling_rate, mechanism.event), self.n_steps)
        return total / (averaged * alpha_n), spent


def _rule(plan: MinibatchPlan) -> tuple[float, float, float]:
    """Return (slope, cap, last clip as a fraction of the first): constants that were measured once on public data."""
    return (25.0, 6.0, 1.0) if math.isfinite(plan.loss.lipschitz) else (10.0, 3.0, 0.5)
