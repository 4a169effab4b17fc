"""The audit of an estimator: whether it keeps the (epsilon, delta) that it claims, on tables made to break it.

1. *Pilot* runs on each pair of neighbouring tables find the pair whose two tables are told apart best.
2. Further runs on that pair learn the attack, and the event by which to judge.
3. The *main* runs, all fresh, are judged by that event alone; so nothing that was chosen by looking at results needs a
   correction, and the lower bound holds with the stated confidence.

An attack makes one number of what a run released: the likelihood ratio of a simple function of it, learnt on other
runs. Any function is a fair score: `epsilon_lower_bound` holds for it. These are chosen to be good: linear ones see a
shift (additive noise too small), distances see a change of spread (a column that is noisier with the person, say),
and the ratio of histograms makes the best of either, thresholds on both sides included.
"""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._plain_data import plain
from sottovoce._validation import number, truth, whole_number
from sottovoce.audit import worker
from sottovoce.audit.pairs import Pair
from sottovoce.audit.threshold import choose_set, detectable_epsilon, epsilon_lower_bound
from sottovoce.exceptions import AuditError, ParameterError
from sottovoce.randomness import uncounted_fits

Array = NDArray[np.float64]
Release = Callable[[Any], Array]
Runs = Callable[[Pair, int, int], Array]  # number of runs, first seed: what they release, of shape (2, runs, outputs)

_LAST_LINES: Final = 12
_BINS = 40
_RUNS_A_BIN = 200
_SMOOTHING = 0.5  # of a run in each bin
_RIDGE = 1e-9
_PILOT_CONFIDENCE: Final = 0.9  # of the pilot's own ranking, which promises nothing
_FEWEST_PILOTS: Final = 100
_CHOOSING: Final = 2  # main runs to one that chooses the attack
_CHOICE_SEED: Final = 2**29  # the three kinds of runs share no seed
_MAIN_SEED: Final = 2**30


@dataclass(frozen=True)
class Attack:
    """A score of a run: the logarithm of the ratio of two histograms of one function of what it released."""

    name: str  # the function, in words
    function: Callable[[Array], Array]  # from outputs of shape (runs, n_outputs) to shape (runs,)
    # Inner edges of the histogram and its value in each bin.
    edges: Array
    log_ratio: Array

    def scores(self, outputs: Array) -> Array:
        """Return the score of each run; large speaks for the first table."""
        scores: Array = self.log_ratio[np.searchsorted(self.edges, self.function(outputs), side="right")]
        return scores


def learn_attacks(first: Array, second: Array, direction: Array) -> list[Attack]:
    """Return attacks learnt on pilot runs.

    ``first``, ``second``: of shape (runs, n_outputs); what runs on the two tables released.
    ``direction``: of shape (n_features,); the canary's row; the first outputs are taken to be its coefficients where
        there are as many.
    """
    return [_with_histograms(name, f, first, second) for name, f in _functions(first, second, direction)]


def _functions(first: Array, second: Array, direction: Array) -> list[tuple[str, Callable[[Array], Array]]]:
    n_outputs = first.shape[1]
    functions: list[tuple[str, Callable[[Array], Array]]] = []
    along = np.zeros(n_outputs)
    if len(direction) <= n_outputs:
        along[: len(direction)] = direction / np.linalg.norm(direction)
        functions.append(("coefficients along the canary", lambda outputs: outputs @ along))
    pooled = np.vstack([first, second])
    middle = np.median(pooled, axis=0)
    spread = np.cov(pooled.T).reshape(n_outputs, n_outputs)
    spread = spread + (_RIDGE * np.trace(spread) / n_outputs + 1e-300) * np.eye(n_outputs)
    discriminant = np.linalg.solve(spread, first.mean(axis=0) - second.mean(axis=0))
    functions.append(("linear discriminant", lambda outputs: outputs @ discriminant))
    whiten = np.linalg.inv(np.linalg.cholesky(spread))
    functions.append(("distance to the middle", lambda outputs: np.linalg.norm((outputs - middle) @ whiten.T, axis=1)))
    if n_outputs > len(direction):
        functions.append(("last output (intercept)", lambda outputs: outputs[:, -1]))
    return functions


def _with_histograms(name: str, function: Callable[[Array], Array], first: Array, second: Array) -> Attack:
    values = [function(first), function(second)]
    bins = max(_BINS, len(first) // _RUNS_A_BIN)
    edges = np.unique(np.quantile(np.concatenate(values), np.linspace(0.0, 1.0, bins + 1)[1:-1]))
    shares = []
    for sample in values:
        counts = np.bincount(np.searchsorted(edges, sample, side="right"), minlength=len(edges) + 1)
        shares.append((counts + _SMOOTHING) / (len(sample) + _SMOOTHING * len(counts)))
    return Attack(name, function, edges, np.log(shares[0] / shares[1]))


@dataclass(frozen=True)
class AuditReport:
    """What an audit found.

    Attributes
    ----------
    estimator : str
    epsilon, delta : float
        The claim.
    lower_bound : float
        Epsilon is at least this, with `confidence`.
    gaussian : bool
        True when the bound supposes a Gaussian mechanism.
    confidence : float
    detectable : float
        True epsilon of a Gaussian mechanism that an audit of this size would have reported in nine of ten trials.
    repeats : bool
        True when all runs on a table released the same: the "noise" does not change from run to run.
    pair, attack : str
        Where the tables were told apart best.
    pilot : dict
        Rough bound of each pair by its best attack, from the pilot runs: what was tried.
    n_runs : int
        Main runs on each table.
    """

    estimator: str
    epsilon: float
    delta: float
    lower_bound: float
    gaussian: bool
    confidence: float
    detectable: float
    repeats: bool
    pair: str
    attack: str
    pilot: Mapping[str, float]
    n_runs: int

    @property
    def violated(self) -> bool:
        """True when the claim is refuted."""
        return self.lower_bound > self.epsilon

    def statement(self) -> str:
        """Return the finding as a few sentences."""
        claim = f"({self.epsilon:g}, {self.delta:g})-differential privacy"
        sure = f"{100.0 * self.confidence:g} % confidence"
        verdict = "VIOLATED" if self.violated else "not refuted"
        found = f"{verdict}: {self.estimator} claims {claim}; with {sure} epsilon is at least {self.lower_bound:.3g}"
        if self.gaussian:
            found += " if the mechanism is Gaussian"
        what = f"Tables: {self.pair}. Attack: {self.attack}. {self.n_runs} runs on each table."
        same = " Every run on one table released the same numbers: the noise is not random." if self.repeats else ""
        power = (
            "No violation by a Gaussian mechanism would have been seen with so few runs."
            if math.isinf(self.detectable)
            else f"A Gaussian mechanism of epsilon {self.detectable:.3g} would have been seen nine times in ten."
        )
        return f"{found}. {what}{same} {power}"

    def to_dict(self) -> dict[str, object]:
        """Return the report as plain data for JSON; infinity is the string ``"inf"``."""
        return {**plain(self), "violated": self.violated}


def audit_estimator(
    estimator: Any,
    pairs: Sequence[Pair],
    *,
    epsilon: float,
    delta: float,
    n_runs: int = 2000,
    n_pilot: int = 300,
    confidence: float = 0.999,
    gaussian: bool = False,
    parameters: Mapping[str, Any] | None = None,
    python: str | Path | None = None,
    n_jobs: int = 1,
    release: Callable[[Any], Array] | None = None,
) -> AuditReport:
    """Try to refute the (epsilon, delta) that an estimator claims.

    Parameters
    ----------
    estimator : object with ``fit``, callable or str
        An unfitted scikit-learn-like estimator (each run fits a clone), a callable that returns one, or, to run it in
        another environment, its class as ``package.module.Class``.
    pairs : sequence of Pair
        Neighbouring tables, within the bounds that the estimator was told; see `worst_case_pairs`.
    epsilon, delta : float
        The claim. ``delta=0`` for pure differential privacy.
    n_runs : int
        Main runs on each table; the bound cannot exceed about log(n_runs / 15).
    n_pilot : int, >= 100
        Pilot runs on each table of each pair.
    confidence : float, in (0, 1)
    gaussian : bool, default False
        Suppose that the mechanism is Gaussian (any composition of Gaussian releases): a bound from fewer runs, which
        means nothing for other mechanisms; see `epsilon_lower_bound`.
    parameters : dict or None
        Of the constructor, where ``estimator`` is a name.
    python : path or None
        Interpreter of the other environment, where ``estimator`` is a name; None takes this one's.
    n_jobs : int
        Processes at the same time, where ``estimator`` is a name.
    release : callable or None
        From a fitted estimator to a vector of all that it releases; None takes ``coef_`` and ``intercept_``.

    Returns
    -------
    AuditReport

    Raises
    ------
    ParameterError
        If an argument is out of range.
    AuditError
        If the estimator cannot be run or fails.

    Notes
    -----
    A ``random_state`` that is not None, of the estimator or of one within it, gets a new value in every run.

    Examples
    --------
    >>> import sottovoce as sv
    >>> from sottovoce.audit import audit_estimator, worst_case_pairs
    >>> model = sv.DPLogisticRegression(
    ...     epsilon=1.0, delta=0.01, data_norm=1.0, classes=[-1, 1], adjacency="replace-one", fit_intercept=False
    ... )
    >>> pairs = worst_case_pairs(data_norm=1.0, classes=[-1, 1])
    >>> audit_estimator(model, pairs[:1], epsilon=1.0, delta=0.01, n_runs=100, n_pilot=100).violated
    False
    """
    epsilon = number("epsilon", epsilon, at_least=0.0)
    delta = number("delta", delta, at_least=0.0, below=1.0)
    confidence = number("confidence", confidence, above=0.0, below=1.0)
    n_runs = whole_number("n_runs", n_runs, at_least=100)
    n_pilot = whole_number("n_pilot", n_pilot, at_least=_FEWEST_PILOTS)
    if truth("gaussian", gaussian) and delta == 0.0:
        raise ParameterError("gaussian=True needs delta > 0: a Gaussian mechanism has no pure epsilon.")
    if not pairs or not all(isinstance(pair, Pair) for pair in pairs):
        raise ParameterError("pairs must hold at least one Pair; worst_case_pairs makes some.")
    runs, name = _runs(estimator, parameters, python, n_jobs, release)
    best: tuple[float, Pair] | None = None
    pilot: dict[str, float] = {}
    for place, pair in enumerate(pairs):
        outputs = _finite(runs(pair, n_pilot, 2 * n_pilot * place), pair)
        value, _ = _best_attack(outputs, pair, delta, gaussian)
        pilot[pair.name] = max(0.0, value)
        if best is None or value > best[0]:
            best = value, pair
    assert best is not None
    pair = best[1]
    outputs = _finite(runs(pair, max(n_pilot, n_runs // _CHOOSING), _CHOICE_SEED), pair)
    attack = _best_attack(outputs, pair, delta, gaussian)[1]
    event = choose_set(*(attack.scores(part) for part in outputs), delta=delta, gaussian=gaussian)
    outputs = _finite(runs(pair, n_runs, _MAIN_SEED), pair)
    first, second = (attack.scores(part) for part in outputs)
    return AuditReport(
        estimator=name,
        epsilon=epsilon,
        delta=delta,
        lower_bound=event.epsilon(first, second, delta=delta, confidence=confidence),
        gaussian=gaussian,
        confidence=confidence,
        detectable=detectable_epsilon(epsilon, delta, n_runs, confidence=confidence, gaussian=gaussian),
        repeats=bool((outputs == outputs[:, :1]).all(axis=(1, 2)).any()),
        pair=pair.name,
        attack=attack.name,
        pilot=pilot,
        n_runs=n_runs,
    )


def _best_attack(outputs: Array, pair: Pair, delta: float, gaussian: bool) -> tuple[float, Attack]:
    """Return the attack that is best on every second run, learnt on the others; then learnt again on all of them."""
    learnt = learn_attacks(outputs[0, 0::2], outputs[1, 0::2], pair.direction)
    judged = [[attack.scores(part) for part in outputs[:, 1::2]] for attack in learnt]
    values = [
        epsilon_lower_bound(*scores, delta=delta, confidence=_PILOT_CONFIDENCE, gaussian=gaussian) for scores in judged
    ]
    place = int(np.argmax(values))
    return values[place], learn_attacks(outputs[0], outputs[1], pair.direction)[place]


def _runs(
    estimator: Any,
    parameters: Mapping[str, Any] | None,
    python: str | Path | None,
    n_jobs: int,
    release: Callable[[Any], Array] | None,
) -> tuple[Runs, str]:
    if isinstance(estimator, str):
        if release is not None:
            raise ParameterError("release is for an estimator of this process; one that is named runs in another.")
        whole_number("n_jobs", n_jobs, at_least=1)
        return foreign_runs(estimator, dict(parameters or {}), str(python or sys.executable), n_jobs), estimator
    if parameters is not None or python is not None or n_jobs != 1:
        raise ParameterError(
            "parameters, python and n_jobs are for an estimator that is named: 'package.module.Class'."
        )
    if callable(estimator) and not hasattr(estimator, "fit"):
        return own_runs(estimator, release), getattr(estimator, "__name__", "estimator")
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise ParameterError(
            f"estimator must be an unfitted estimator, a callable that makes one, or a name; got {estimator!r}."
        )
    return own_runs(lambda: _fresh(estimator), release), type(estimator).__name__


def own_runs(make: Callable[[], Any], release: Release | None = None) -> Runs:
    """Run in this process.

    ``make``: returns a fresh, unfitted estimator.
    ``release``: from a fitted estimator to a vector of all that it releases. Default: coefficients and intercepts.
    """

    def run(pair: Pair, n_runs: int, first_seed: int) -> Array:
        try:
            with uncounted_fits():
                told = worker.released_numbers if release is None else release
                outputs: Array = worker.fit_many(make, _tables(pair), n_runs, first_seed, told)
        except Exception as error:
            raise AuditError(
                f"the estimator under audit failed on the pair {pair.name!r}: {type(error).__name__}: {error}"
            ) from error
        return outputs

    return run


def foreign_runs(estimator: str, parameters: Mapping[str, Any], python: str, n_jobs: int) -> Runs:
    """Run in an interpreter of another environment, which needs numpy and the estimator's package, nothing of ours.

    ``estimator``: as ``package.module.Class``.
    ``parameters``: of its constructor; plain data.
    ``n_jobs``: processes at the same time.
    """

    def share(pair: Pair, runs: int, first_seed: int) -> Array:
        tables = [(X.tolist(), np.asarray(y).tolist()) for X, y in _tables(pair)]
        job = {"estimator": estimator, "parameters": parameters, "tables": tables, "runs": runs, "first": first_seed}
        command = [python, str(worker.__file__)]
        try:
            done = subprocess.run(
                command, input=json.dumps(job), capture_output=True, text=True, errors="replace", check=False
            )
        except OSError as error:
            raise AuditError(f"cannot start the interpreter {python!r}: {error.strerror}.") from None
        if done.returncode != 0:
            last = "\n".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
            raise AuditError(f"{estimator} failed under {python} on the pair {pair.name!r}:\n{last}")
        told = done.stdout.rpartition("\n[[[")[2].partition("\n")[0]  # whatever else was printed
        outputs: Array = np.empty(0)
        with suppress(ValueError):
            outputs = np.array(json.loads(f"[[[{told}"), np.float64)
        if outputs.shape[:2] != (2, runs) or outputs.ndim != 3:
            raise AuditError(
                f"{estimator} ended under {python} on the pair {pair.name!r} without its outputs: it must not end its "
                "process, nor print lines of numbers when it ends."
            )
        return outputs

    def run(pair: Pair, n_runs: int, first_seed: int) -> Array:
        sizes = [len(part) for part in np.array_split(np.arange(n_runs), min(n_jobs, n_runs))]
        starts = [first_seed + 2 * before for before in np.cumsum([0, *sizes[:-1]]).tolist()]
        with ThreadPoolExecutor(len(sizes)) as pool:
            return np.concatenate(list(pool.map(share, [pair] * len(sizes), sizes, starts)), axis=1)

    return run


def _tables(pair: Pair) -> list[tuple[Array, NDArray[Any]]]:
    return [(pair.X, pair.y), (pair.X_neighbour, pair.y_neighbour)]


def _fresh(value: Any) -> Any:
    """Return an unfitted copy, of estimators within it too; all else is shared: copies of a generator draw the same."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_fresh, value))
    if not hasattr(value, "get_params") or isinstance(value, type):
        return value
    return type(value)(**{name: _fresh(one) for name, one in value.get_params(deep=False).items()})


def _finite(outputs: Array, pair: Pair) -> Array:
    if not np.isfinite(outputs).all():
        raise AuditError(f"the estimator released NaN or infinity on the pair {pair.name!r}.")
    return outputs
