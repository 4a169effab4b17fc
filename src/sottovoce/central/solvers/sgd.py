r"""DP-SGD on Poisson samples (Abadi et al. 2016), for comparison; and plain SGD for runs without noise.

Step t samples each row with probability q = L / n on its own, clips each gradient l'(x_i.w) x_i to norm C, and goes

    w <- (w - eta (sum of them + N(0, (s C)^2 I)) / L) / (1 + eta alpha):

divided by the *expected* batch size L, because the realised one is secret, with the step of the L2 term implicit (it is
a function of w, which is public, and the step stays bounded for every eta). The model is the average of the last w's.

Privacy: ``docs/privacy/dp_sgd.md``. Differences from the paper [1]_: Poisson samples, as its accountant assumes; the
budget is kept by privacy loss distributions in place of the moments accountant; noise on a grid; averaging.

References
----------
.. [1] Abadi et al. (2016). Deep Learning with Differential Privacy. arXiv:1607.00133; Algorithm 1.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._validation import number
from sottovoce.central.first_order import FirstOrderPlan
from sottovoce.central.kernels import gradient, sequential
from sottovoce.central.parallel import Team
from sottovoce.central.plan import Progress, Solution
from sottovoce.central.rows import Rows
from sottovoce.central.sampling import poisson_sample, refuse_rare_samples, sampled_noise, sampled_steps
from sottovoce.central.scaled_plan import Scales, sum_mechanism
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event, NonPrivateEvent, PoissonSampledEvent, RepeatedEvent, compose
from sottovoce.randomness import Purpose, Streams

__all__ = ["PlainSGDPlan", "SGDPlan"]

_AVERAGED: Final = 0.5  # share of the steps, the last ones, that the model is averaged over
_MIN_STEPS: Final = 50
_MAX_STEPS: Final = 10_000
_PLENTY: Final = 2.0  # noise multiplier of a step beyond which larger batches save hardly any noise


@dataclass(frozen=True, kw_only=True)
class SGDPlan(FirstOrderPlan):
    """Plan of DP-SGD.

    Parameters
    ----------
    batch_size : float or None
        Expected size L >= 1 of a batch (all rows when larger than n_samples: then nothing is sampled and the account
        is exact Gaussian DP); None follows a rule.
    epochs : float or None
        Expected number of times that a row is sampled; None follows a rule.
    """

    batch_size: float | None = None
    epochs: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size is not None:
            number("batch_size", self.batch_size, at_least=1.0)
        if self.epochs is not None:
            number("epochs", self.epochs, above=0.0, at_most=1e6)
        if self.is_private:
            refuse_rare_samples(self.sampling_rate, self.n_steps * self.n_models)
        if self.adjacency is Adjacency.REPLACE_ONE and self.is_private and self.sampling_rate < 1.0:
            raise ParameterError(
                "adjacency must be 'zero-out' or 'add-remove' for solver='sgd' with batches smaller than the table: "
                "there is no tight accountant for replacing a row under Poisson sampling here; got 'replace-one'. Give "
                "solver_options={'batch_size': n_samples}, or use solver='scd'."
            )

    @property
    def solver(self) -> str:
        """Name of the solver as users give it."""
        return "sgd"

    @property
    def proof(self) -> str:
        """Page with statement and proof."""
        return "docs/privacy/dp_sgd.md"

    @property
    def _wanted_steps(self) -> int:
        return round(min(_MAX_STEPS, max(_MIN_STEPS, self.horizon / self.safe_rate)))

    @cached_property
    def expected_size(self) -> float:
        """Expected size of a batch."""
        n = float(self.n_samples)
        if self.batch_size is not None:
            return min(self.batch_size, n)
        # s is about q sqrt(T) / mu
        return max(1.0, min(n, max(2.0 * math.sqrt(n), _PLENTY * self.mu_model * n / math.sqrt(self._wanted_steps))))

    @property
    def sampling_rate(self) -> float:
        """Probability that a step uses a given row."""
        return min(1.0, self.expected_size / self.n_samples)

    @cached_property
    def n_steps(self) -> int:
        """Number of steps of each model."""
        return self._wanted_steps if self.epochs is None else max(1, round(self.epochs / self.sampling_rate))

    @property
    def rate(self) -> float:
        """Learning rate."""
        return min(self.safe_rate, self.horizon / self.n_steps) if self.learning_rate is None else self.learning_rate

    @property
    def noise_multiplier(self) -> float:
        """Noise of a step divided by its sensitivity: the least that keeps the budget of the whole run."""
        steps = self.n_steps * self.n_models
        if self.sampling_rate == 1.0:
            return math.sqrt(steps) / self.mu_steps
        return sampled_noise(self.scale_events, self.sampling_rate, steps, self.epsilon, self.delta, self.mu_steps)

    @property
    def event(self) -> Event:
        """The scales of the labels and the steps."""
        steps = self.n_steps * self.n_models
        return sampled_steps(self.scale_events, self.sampling_rate, steps, self.noise_multiplier)

    def details(self) -> dict[str, object]:
        """Return the sampling, the step and the noise."""
        return {
            "mu for the labels": self.mu_scale if self.estimates_labels else 0.0,
            "expected batch size": self.expected_size,
            "sampling rate": self.sampling_rate,
            "steps of each model": self.n_steps,
            "learning rate": self.rate,
            "noise multiplier of a step": self.noise_multiplier,
        }

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        return "DP-SGD: adaptive composition of Poisson-subsampled Gaussian mechanisms on a grid"

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
        return Solution(np.stack(weights), self.n_steps, compose(*events), self.chosen(scales), offset=scales.location)

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
        clip, rate = self.clip_for(scales), self.rate
        mechanism = sum_mechanism(self.adjacency, clip, self.noise_multiplier)
        w, total = np.zeros(self.n_weights), np.zeros(self.n_weights)
        averaged = max(1, round(_AVERAGED * self.n_steps))
        step_work = rows.work * self.sampling_rate
        for step in range(self.n_steps):
            batch = poisson_sample(rows.n_samples, self.sampling_rate, sampling)
            ranges = team.split(len(batch), step_work)
            sums = np.zeros((len(ranges), self.n_weights), np.int64)
            at = rows.weights(w)

            def one_range(
                part: int, lo: int, hi: int, at: NDArray[Any] = at,
                batch: NDArray[np.int64] = batch, sums: NDArray[np.int64] = sums,
            ) -> None:  # fmt: skip
                gradient.batch_gradient(
                    rows.kernel, rows.scale, rows.norm, rows.constant, y, at, clip, 1.0 / mechanism.tick, self.loss,
                    batch, lo, hi, sums[part],
                )  # fmt: skip

            team.run(one_range, ranges)
            noisy, _ = mechanism.release(sums.sum(axis=0), noise)
            w = (w - (rate / self.expected_size) * noisy) / (1.0 + rate * self.alpha_scaled)
            if step >= self.n_steps - averaged:
                total += w
            report(step + 1)
        spent = RepeatedEvent(PoissonSampledEvent(self.sampling_rate, mechanism.event), self.n_steps)
        return total / averaged, spent


@dataclass(frozen=True, kw_only=True)
class PlainSGDPlan(SGDPlan):
    """Plan of SGD without noise: shuffled epochs, no clip (``clipping_norm`` is not used), a fading learning rate.

    ``batch_size`` is 1, ``epochs`` 50 and ``learning_rate`` 1 / smoothness by default; the run takes all its epochs.
    """

    @property
    def solver(self) -> str:
        """Name of the solver as users give it."""
        return "sgd (no privacy)"

    @property
    def event(self) -> Event:
        """No protection."""
        return NonPrivateEvent()

    def run(self, released: Mapping[str, object]) -> tuple[Event, dict[str, object]]:
        """Return the event; nothing else is chosen."""
        return self.event, {}

    @property
    def mechanism(self) -> str:
        """The algorithm in one sentence, for the receipt."""
        return "stochastic gradient descent without noise"

    @property
    def releases(self) -> tuple[str, ...]:
        """What is released, for the receipt."""
        return ("the weights, unprotected",)

    @property
    def proof(self) -> str:
        """No page: there is nothing to prove."""
        return "none: this run is not private"

    def details(self) -> dict[str, object]:
        """Return batch, epochs and first learning rate."""
        return {"batch size": self._size, "epochs": self._epochs, "first learning rate": self.rate}

    @property
    def _size(self) -> int:
        return 1 if self.batch_size is None else min(self.n_samples, max(1, round(self.batch_size)))

    @property
    def _epochs(self) -> int:
        return 50 if self.epochs is None else max(1, round(self.epochs))

    @property
    def rate(self) -> float:
        """First learning rate."""
        return self.safe_rate if self.learning_rate is None else self.learning_rate

    def solve(
        self, rows: Rows, targets: list[NDArray[np.float64]], streams: Streams, team: Team, progress: Progress
    ) -> Solution:
        """Train one model for each target; the second half of the steps is averaged."""
        shuffling = streams.generator(Purpose.SHUFFLING)
        weights = []
        for model, y in enumerate(targets):
            w, average = np.zeros(self.n_weights), np.zeros(self.n_weights)
            done = before = 0
            for epoch in range(self._epochs):
                if epoch == self._epochs // 2:
                    average[:], before = 0.0, done
                done = sequential.sgd_epoch(
                    rows.kernel, rows.scale, rows.constant, y, w, self.alpha_scaled, self.rate, done, self._size,
                    self.loss, shuffling.permutation(rows.n_samples), average,
                )  # fmt: skip
                progress(model * self._epochs + epoch + 1, self._epochs * self.n_models)
            weights.append(average / (done - before))
        return Solution(np.stack(weights), self._epochs, self.event, {})
