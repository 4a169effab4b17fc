r"""DP-SGD on Poisson samples (Abadi et al. 2016).

Step t samples each row with probability q = L / n on its own, clips each gradient l'(x_i.w) x_i to norm C, and goes

    w <- (w - eta (sum of them + N(0, (s C)^2 I)) / L) / (1 + eta alpha):

divided by the *expected* batch size L, because the realised one is secret, with the step of the L2 term implicit (it is
a function of w, which is public, and the step stays bounded for every eta). The model is the average of the last w's.

Where nothing is given, C, eta, T and L follow from public facts. T steps of learning rate eta move w by at most
P = eta T C, and their noise has standard deviation P / (mu n) in each direction, however P is divided into steps. So
P = c mu n, whatever the number of weights; c, and C as a share of the bound on |l'| (of the scale of the labels), were
taken from what tuning chose on public tables. C grows to the whole bound with mu n, so that no clip stays where there
is no noise to avoid. ``docs/guide/solvers.md`` says how near a tuned run this comes.

Privacy: ``docs/privacy/dp_sgd.md``. Differences from the paper [1]_: Poisson samples, as its accountant assumes; the
budget is kept by privacy loss distributions in place of the moments accountant; noise on a grid; averaging.

References
----------
.. [1] Abadi et al. (2016). Deep Learning with Differential Privacy. arXiv:1607.00133; Algorithm 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sottovoce._validation import magnitude
from sottovoce._validation import number as number_within
from sottovoce.central.core import Asked, Release, Tell, replay
from sottovoce.central.plan import Plan, Solution, Takes, TrainingFacts
from sottovoce.central.split import AFTER_STEPS, Scales, Split, State, one_by_one
from sottovoce.central.sums.clipped_sums import clipped_sum
from sottovoce.central.sums.samples import SampledGradient, refuse_rare_samples, sampled_noise
from sottovoce.exceptions import ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event

_MIN_STEPS: Final = 400
_MAX_STEPS: Final = 10_000
_PATH: Final = 2.0  # c, for losses with a bound on |l'|
_PATH_SQUARED: Final = 0.75
_WIDE: Final = 1000.0  # weights beyond which the path is shorter and the clip smaller
_CLIP: Final = 0.5  # of the bound on |l'|, or of the released scale of the labels
_PLENTY_OF_ROWS: Final = 40_000.0  # mu n beyond which nothing needs a smaller clip than the loss asks for
_PLENTY: Final = 2.0  # noise multiplier of a step beyond which larger batches save hardly any noise
AVERAGED: Final = 0.5  # share of the steps, the last ones


@dataclass(frozen=True)
class Batches:
    """How large a sample is, and the noise of a step: both follow from public facts."""

    split: Split
    expected_size: float  # L >= 1, at most the number of rows
    n_steps: int  # of one model

    def check(self) -> None:
        """Refuse samples that are too rare or too many for the accountant."""
        refuse_rare_samples(self.sampling_rate, self.n_steps * self.split.facts.n_models)

    @property
    def sampling_rate(self) -> float:
        """Probability that a step uses a given row."""
        return min(1.0, self.expected_size / self.split.facts.n_samples)

    @cached_property
    def before(self) -> tuple[Event, ...]:
        """What is released before the steps."""

        def asks() -> Asked[None]:
            yield from self.split.facts.norm()
            yield from self.split.scales()

        return (replay(asks).event,)

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise of a step divided by its sensitivity: the least that keeps the budget of the whole run.

        With samples of all rows nothing is sampled, and the account is exact Gaussian DP.
        """
        facts, steps = self.split.facts, self.n_steps * self.split.facts.n_models
        if self.sampling_rate == 1.0:
            return math.sqrt(steps) / self.split.steps
        return sampled_noise(self.before, self.sampling_rate, steps, facts.epsilon, facts.delta, self.split.steps)


def safe_rate(facts: TrainingFacts, spread: float = 1.0) -> float:
    """Return a learning rate that converges for rows of norm at most 1, of which a step sees ``spread`` at most."""
    smoothness = facts.loss.smoothness if math.isfinite(facts.loss.smoothness) else 1.0
    return 1.0 / (smoothness * spread**2 + facts.alpha_scaled)


class _Rules:
    """What public rules say of steps."""

    horizon: float  # learning rate times number of steps, P / C
    share_of_bound: float  # C over the bound on |l'|, or over the scale of the labels (their bound, where C is given)
    n_steps: int


@dataclass(frozen=True)
class Walk(_Rules):
    """How far the steps of one model go in all, in how many steps, and where gradients are clipped: public rules.

    With n rows, d weights and the Gaussian-DP parameter mu of one model, steps of learning rate eta on gradients
    clipped to C add noise of norm about H C sqrt(d) / (mu n) to the weights, where H = eta T is the *horizon* of T
    steps, however H is divided into steps.
    """

    facts: TrainingFacts
    mu: float
    clip: float | None = None  # given; None follows the rule

    def __post_init__(self) -> None:
        facts, lipschitz = self.facts, self.facts.loss.lipschitz
        bounded, known = math.isfinite(lipschitz), self.mu * facts.n_units
        width = math.sqrt(math.sqrt(math.sqrt(min(1.0, _WIDE / facts.n_weights))))
        share = max(_CLIP * width**2, known / _PLENTY_OF_ROWS)
        if self.clip is not None:
            share = self.clip / (lipschitz if bounded else 1.0)
        elif bounded:
            share = min(1.0, share)
        path = (_PATH if bounded else _PATH_SQUARED) * width * self.mu * facts.n_units
        horizon = min(path / share, 10.0 / facts.alpha_scaled)  # ten time constants of the L2 term are enough
        steps = round(min(_MAX_STEPS, max(_MIN_STEPS, horizon / safe_rate(facts))))
        vars(self).update(share_of_bound=share, horizon=horizon, n_steps=steps)

    def rate(self, n_steps: int) -> float:
        """Return the learning rate of so many steps."""
        return min(safe_rate(self.facts), self.horizon / n_steps)


@dataclass(frozen=True, kw_only=True)
class SGDPlan(Plan):
    """Plan of DP-SGD; with batches of all rows nothing is sampled, and the account is exact Gaussian DP.

    Without `clipping_norm`, C is half the bound on |l'|, or half the released scale of the labels; less for wide tables
    and more, up to the whole bound, where mu n is large.
    """

    solver = "sgd"
    mechanism = "DP-SGD: adaptive composition of Poisson-subsampled Gaussian mechanisms on a grid"
    proof = "docs/privacy/dp_sgd.md"
    takes = Takes.PERSONS | Takes.RELEASED_NORM

    # Step eta on the gradient of the mean loss, for rows scaled to norm 1; None follows a public rule.
    learning_rate: float | None = None
    # Bound C on the norm of a row's gradient, for squared loss in units of the label bound. None takes a share of the
    # bound on |l'|, or, for squared loss, location and scale of the labels are released with 2 % of the budget, the
    # labels are centred, and C is a share of their scale.
    clipping_norm: float | None = None
    # Expected size L >= 1 of a batch (all rows when larger than n_samples); None follows a rule.
    batch_size: float | None = None
    epochs: float | None = None  # expected number of times that a row is sampled; None follows a rule

    def check(self) -> None:
        self.check_given(magnitude, "learning_rate", "clipping_norm")
        self.check_given(number_within, "batch_size", at_least=1.0)
        self.check_given(number_within, "epochs", above=0.0, at_most=1e6)
        self.batches.check()
        if self.adjacency is Adjacency.REPLACE_ONE and self.batches.sampling_rate < 1.0:
            raise ParameterError(
                "adjacency must be 'zero-out' or 'add-remove' for solver='sgd' with batches smaller than the table: "
                "there is no tight accountant for replacing a row under Poisson sampling here; got 'replace-one'. Give "
                "solver_options={'batch_size': n_samples}, or use solver='scd'."
            )
        if self.max_rows_per_group is not None and self.batches.sampling_rate < 1.0:
            raise ParameterError(
                "max_rows_per_group must be None for solver='sgd' with batches smaller than the table: rows are "
                "sampled one by one, and several rows of a person make the account another one. Give "
                "solver_options={'batch_size': n_samples}, or use solver='scd'."
            )

    @cached_property
    def split(self) -> Split:
        """How the budget is divided: labels have a scale where the loss has no Lipschitz bound, unless C is given."""
        return Split(facts=self.facts, labels=self.clipping_norm is None and not math.isfinite(self.loss.lipschitz))

    @cached_property
    def walk(self) -> Walk:
        """How far the steps go in all."""
        return Walk(self.facts, self.split.model, self.clipping_norm)

    def clip_for(self, scales: Scales) -> float:
        """Return C."""
        if self.clipping_norm is not None:
            return self.clipping_norm * (self.label_bound or 1.0)
        if math.isfinite(self.loss.lipschitz):
            return self.walk.share_of_bound * self.loss.lipschitz
        return min(self.walk.share_of_bound * scales.label, self.label_bound or math.inf)

    @cached_property
    def batches(self) -> Batches:
        """Size and number of the samples; with batches of all rows nothing is sampled."""
        n, wanted = float(self.n_samples), self.walk.n_steps
        if self.batch_size is not None:
            size = min(self.batch_size, n)
        else:
            # s is about q sqrt(T) / mu
            quiet = _PLENTY * self.split.model * self.n_units / math.sqrt(wanted)
            size = max(1.0, min(n, max(2.0 * math.sqrt(n), quiet)))
        steps = wanted if self.epochs is None else max(1, round(self.epochs / min(1.0, size / n)))
        return Batches(self.split, size, steps)

    @cached_property
    def rate(self) -> float:
        """The learning rate."""
        return self.walk.rate(self.batches.n_steps) if self.learning_rate is None else self.learning_rate

    def details(self) -> dict[str, object]:
        return {
            "mu for the labels": self.split.of_labels,
            "expected batch size": self.batches.expected_size,
            "sampling rate": self.batches.sampling_rate,
            "steps of each model": self.batches.n_steps,
            "learning rate": self.rate,
            "noise multiplier of a step": self.batches.noise_multiplier,
        }

    def train(self) -> Asked[Solution]:
        scales, batches = (yield from self.split.scales()), self.batches
        sums = clipped_sum(self.neighbours, self.clip_for(scales), batches.noise_multiplier)
        yield Tell("clipping norm", sums.clip)
        towards, shrunk = self.rate / batches.expected_size, 1.0 + self.rate * self.alpha_scaled
        clip, ticks, rate = sums.clip, sums.ticks_per_unit, batches.sampling_rate

        def step(number: int, state: State, done: tuple[int, int]) -> Asked[State]:
            (point,) = state
            ask = SampledGradient(self.loss, point, clip, ticks, rate)
            noisy = yield Release(AFTER_STEPS, ask, sums.mechanism, done)
            return ((point - towards * noisy) / shrunk,)

        weights = yield from one_by_one(self.split, scales, step, batches.n_steps, AVERAGED)
        return self.solution(weights, batches.n_steps, offset=scales.location)
