"""Fits of an estimator to made-up tables: what noise costs at any public n and epsilon."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sottovoce._validation import MAX_EPSILON
from sottovoce.central.plan import Plan
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.pipeline import DPPipeline
from sottovoce.estimators.scaler import DPScaler
from sottovoce.forecasting.population import Population
from sottovoce.privacy.accounting import gaussian_epsilon
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.randomness import uncounted_fits

_RUNS: Final = 3
_UNITS_SEED: Final = 2026
_MOST_DIGITS: Final = 3.0  # of the units of columns, on either side of 1
_MOST_MU: Final = 1e3  # hardly any noise is left
_WITHOUT_NOISE: Final = {"epsilon": math.inf, "alpha": "auto", "solver": "auto", "solver_options": None,
                         "tol": 1e-3, "max_iter": 300}  # fmt: skip


class Price(NamedTuple):
    """How much lower a score is with noise than without, and how much it differs from fit to fit."""

    mean: float
    spread: float


class Trials:
    """Fits of one estimator to tables of one population.

    ``margin``: what a score on a real table may differ by, beside the price and the spread of fits.

    ``estimator``: its constructor parameters are read, nothing else.
    ``n_features``: public; the population may stand for it with fewer columns.
    """

    margin = 0.005

    def __init__(self, estimator: DPLinearEstimator, population: Population, n_features: int) -> None:
        self._estimator, self._population, self._n_features = estimator, population, n_features
        self._most_rows: int | None = estimator.max_rows_per_group
        self._exact: dict[int, tuple[float, ...]] = {}

    @property
    def least_score(self) -> float:
        """What guessing reaches."""
        return self._population.guessing

    @property
    def noise_score(self) -> float:
        """What a model of noise alone reaches, were all classes as frequent; nothing bounds an R2 from below."""
        return min(0.5, self.least_score) if self.least_score > 0.0 else -math.inf

    def price(self, n: int, epsilon: float) -> Price:
        """Return what noise costs in a fit to n rows.

        Of a large table fewer rows are made up, and epsilon is raised so that mu n (of Gaussian differential privacy)
        is the same; solver and penalty are those of n rows.
        """
        rows = min(n, self._population.most_rows)
        plan = self._plan(n, epsilon)
        if rows < n:
            mu = min(_MOST_MU, gaussian_mu(epsilon, plan.delta) * n / rows)
            epsilon = min(MAX_EPSILON, gaussian_epsilon(mu, plan.delta))
        given = self._estimator.solver
        solver = plan.solver if isinstance(given, str) else given  # what "auto" took for n rows, or the object
        noisy = self._scores(rows, epsilon=epsilon, solver=solver, alpha=plan.alpha)
        if rows not in self._exact:
            self._exact[rows] = self._scores(rows, **_WITHOUT_NOISE)
        # no model is better for its noise: where it seems so, the fit without noise had too few rows
        lost = max(0.0, statistics.mean(self._exact[rows]) - statistics.mean(noisy))
        return Price(lost, statistics.stdev(noisy))

    def _plan(self, n: int, epsilon: float) -> Plan:
        estimator = self._for(n, epsilon=epsilon)
        return estimator.plan_for(n, self._n_features, estimator.planned_models())

    def _for(self, n: int, **changed: Any) -> DPLinearEstimator:
        own = self._estimator
        bound = {} if isinstance(own.data_norm, str) else {"data_norm": 1.0}  # rows are in units of their bound
        size = {} if own.n_public is None else {"n_public": n}
        nobodys = {"ledger": None, "dataset": None, "verbose": 0, "accept_delta": own.delta}
        given = {**own.get_params(deep=False), **nobodys, **self._population.public, **bound, **size, **changed}
        return type(own)(**given)

    def _groups(self, rows: int) -> NDArray[Any] | None:
        """Return made-up people, each with as many rows as a person may have, or None where each row is one."""
        return None if self._most_rows is None else np.arange(rows) // self._most_rows

    def _scores(self, rows: int, **changed: Any) -> tuple[float, ...]:
        found = []
        with warnings.catch_warnings(), uncounted_fits():
            warnings.simplefilter("ignore")  # nobody's data are fitted
            for run in range(_RUNS):
                X, y = self._population.table(rows, run)
                model = self._for(rows, random_state=run, **changed)
                found.append(self._population.score(self._fitted(model, X, y, self._groups(rows))))
        return tuple(found)

    def _fitted(self, model: Any, X: Any, y: Any, groups: Any) -> Any:
        return model.fit(X, y, groups=groups)


class PipelineTrials(Trials):
    """Fits of a scaler and a model to tables of one population, whose columns are brought to units of all sizes."""

    margin = 0.015  # chosen on eleven tables, confirmed on ten: benchmarks/central/forecast_pipelines.py

    def __init__(self, pipeline: DPPipeline, model: DPLinearEstimator, population: Population, n_features: int) -> None:
        super().__init__(model, population, n_features)
        self._pipeline, self._most_rows = pipeline, pipeline.max_rows_per_group
        sizes = np.random.default_rng(_UNITS_SEED).uniform(-_MOST_DIGITS, _MOST_DIGITS, (2, population.width))
        self._units, self._offsets = 10.0 ** sizes[0], 10.0 ** sizes[0] * sizes[1]

    def _plan(self, n: int, epsilon: float) -> Plan:
        pipeline = self._for(n, epsilon=epsilon)
        plan: Plan = pipeline.plan_for(n, self._n_features, pipeline.planned_models()).model
        return plan

    def _for(self, n: int, **changed: Any) -> Any:
        own, of_pipeline = self._pipeline, ("epsilon", "random_state")
        model = clone(self._estimator).set_params(
            **self._population.public, **{name: value for name, value in changed.items() if name not in of_pipeline}
        )
        scalers = [(name, clone(step)) for name, step in own.steps[:-1] if isinstance(step, DPScaler)]
        return DPPipeline(
            [*scalers, (own.steps[-1][0], model)], delta=own.delta, accept_delta=own.delta, adjacency=own.adjacency,
            n_public=None if own.n_public is None else n, max_rows_per_group=own.max_rows_per_group,
            scaler_share=own.scaler_share, **{name: changed[name] for name in of_pipeline if name in changed},
        )  # fmt: skip

    def _fitted(self, model: Any, X: Any, y: Any, groups: Any) -> Any:
        return _Elsewhere(model.fit(self._raw(X), y, groups=groups), self._raw)

    def _raw(self, X: Any) -> Any:
        return X * self._units + self._offsets


class _Elsewhere(NamedTuple):
    """A fitted model for rows in the unit of the population."""

    model: Any
    raw: Callable[[Any], Any]

    @property
    def classes_(self) -> NDArray[Any]:
        found: NDArray[Any] = self.model.classes_
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        found: NDArray[Any] = self.model.predict(self.raw(X))
        return found
