"""What the linear estimators share: checks, the plan, the fit, the receipt."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import (
    _num_features,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from sottovoce._plain_data import encode
from sottovoce._validation import magnitude, number, privacy_budget, refuse_masked, whole_number
from sottovoce.central.facts import TrainingFacts
from sottovoce.central.parallel import Team, team
from sottovoce.central.plan import Plan, Solution
from sottovoce.central.rows import Rows, make_rows
from sottovoce.central.streamed import StreamedTable
from sottovoce.estimators._memory_map import refuse_copy_of_map
from sottovoce.estimators._pipelines import fitted_before, fitted_steps, warn_of_fitted_steps
from sottovoce.estimators._progress import progress_bar
from sottovoce.estimators._repeats import fit_without_ledger
from sottovoce.estimators._solvers import automatic_alpha, make_plan
from sottovoce.estimators._ties import arguments_of, encode_classes, model_digest
from sottovoce.estimators._unread import UnreadTable
from sottovoce.exceptions import DataError, ParameterError, PrivacyWarning
from sottovoce.ledger.charging import OpenCharge, charging, is_charged
from sottovoce.ledger.ledger import Charge
from sottovoce.losses import Loss
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.large_delta import refuse_large_delta, warn_of_large_delta
from sottovoce.privacy.receipts import make_receipt
from sottovoce.randomness import Streams

__all__ = ["DPLinearEstimator"]

_AUTO_ALPHA = "Or give 'auto', which follows the public number of rows."
_ROWS = 8192  # predicted at a time
_MOST_ROWS = 2**37  # sums of so many rows, of 2^24 ticks each, fit in 63 bits together with their noise
NOT_COVERED = (
    "timing, memory and other side channels of the machine that trains, and whether the fit failed",
    "rows of the same person beyond one: k rows cost k times epsilon, and more of delta",
    "choosing parameters or data by looking at earlier results: each fit on the same people adds up",
    "how exactly floating-point Gaussians follow their law, where any are drawn",
)


class DPLinearEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the estimators; constructor parameters are public facts and are never written by `fit`."""

    epsilon: float | None
    delta: float | None
    accept_delta: float | None
    data_norm: float | None
    alpha: float | str
    fit_intercept: bool
    intercept_scaling: float
    solver: str
    solver_options: Any
    adjacency: str
    n_public: int | None
    max_iter: int
    tol: float
    random_state: Any
    verbose: int
    ledger: Any
    dataset: str | None

    coef_: NDArray[np.float64]
    intercept_: Any
    n_iter_: int
    n_features_in_: int
    guarantee_: Guarantee
    charge_: Charge | None

    @abstractmethod
    def _make_loss(self) -> Loss: ...

    def _label_bound(self) -> float | None:
        return None

    def _n_models(self) -> int:
        """Return the number of binary models, known from constructor parameters or from `fit`."""
        return 1

    def plan(self, n_samples: int, n_features: int) -> Plan:
        """Return the frozen plan for a table of public size, before any data are read.

        Parameters
        ----------
        n_samples : int
            Public number of rows (replaced by ``n_public`` where that is set).
        n_features : int

        Returns
        -------
        Plan

        Raises
        ------
        ParameterError
            If a parameter is missing, out of range or does not fit another one.
        """
        plan = self._plan(n_samples, n_features, self._n_models())
        if plan.is_private:
            warn_of_large_delta(plan.delta, plan.n_samples)
        return plan

    def _plan(self, n_samples: int, n_features: int, n_models: int) -> Plan:
        epsilon, delta = self._budget(n_samples, n_features)
        magnitude(
            "data_norm", self.data_norm,
            remedy="It is a public bound on the Euclidean norm of a row; never compute it from the data. Longer rows "
            "are shortened to it.",
        )  # fmt: skip
        alpha = 0.0 if self._has_auto_alpha else magnitude("alpha", self.alpha, remedy=_AUTO_ALPHA)
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise ParameterError(f"fit_intercept must be True or False; got {self.fit_intercept!r}.")
        intercept = magnitude("intercept_scaling", self.intercept_scaling) if self.fit_intercept else 0.0
        adjacency, n_samples = self._neighbours(n_samples, private=math.isfinite(epsilon))
        if self._has_auto_alpha:
            alpha = automatic_alpha(int(n_samples), private=math.isfinite(epsilon))
        facts = TrainingFacts(
            loss=self._make_loss(),
            n_samples=int(n_samples),
            n_features=int(n_features),
            n_models=n_models,
            alpha=alpha,
            constant=intercept,
            epsilon=epsilon,
            delta=delta,
            adjacency=adjacency,
            label_bound=self._label_bound(),
        )
        tol, max_iter = number("tol", self.tol, above=0.0), whole_number("max_iter", self.max_iter, at_least=1)
        return make_plan(self.solver, facts, self.solver_options, tol=tol, max_iter=max_iter)

    @property
    def _has_auto_alpha(self) -> bool:
        return isinstance(self.alpha, str) and self.alpha == "auto"

    def _budget(self, n_samples: int, n_features: int) -> tuple[float, float]:
        """Return epsilon and delta, checked, after the public sizes."""
        whole_number("n_samples", n_samples, at_least=1, at_most=_MOST_ROWS)
        whole_number("n_features", n_features, at_least=1)
        return privacy_budget(self.epsilon, self.delta)

    def _neighbours(self, n_samples: int, *, private: bool) -> tuple[Adjacency, int]:
        """Return the adjacency and the public number of rows, checked."""
        adjacency = Adjacency.parse(self.adjacency)
        if adjacency is Adjacency.ADD_REMOVE and self.n_public is None and private:
            raise ParameterError(
                "n_public is missing: with adjacency='add-remove' the number of rows is secret, so give a public "
                "stand-in for it (an order of magnitude is enough), or use adjacency='zero-out'."
            )
        if self.n_public is not None:
            n_samples = whole_number("n_public", self.n_public, at_least=1, at_most=2**53)
        if private:
            assert self.delta is not None
            refuse_large_delta(float(self.delta), int(n_samples), self.accept_delta)
        return adjacency, n_samples

    def _read_rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return X as a C-contiguous float array, a canonical CSR matrix or a table on disk, and y as it is."""
        # NaN and infinity are left to make_rows and to the label checks, whose messages say where and what to do
        checks = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C", "ensure_all_finite": False}
        if isinstance(X, UnreadTable):
            X, y = X.read()
        if isinstance(X, StreamedTable):
            self._check_columns(X, reset=True)
            y = column_or_1d(X.labels() if y is None else y, warn=True)
            check_consistent_length(X, y)
            return X, y
        refuse_copy_of_map(X, row_by_row=True)
        refuse_masked("X", X)
        refuse_masked("y", y)
        if y is None:
            validate_data(self, X, y, **checks)  # says that y is missing
        X = validate_data(self, X, **checks)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return (_canonical(X) if sp.issparse(X) else X), y

    def _check_columns(self, X: StreamedTable, *, reset: bool) -> None:
        """Remember (``reset``) or check number and names of the columns, with scikit-learn's own messages."""
        header = pd.DataFrame(np.empty((0, X.shape[1])), columns=list(X.feature_names))
        validate_data(self, header, reset=reset, ensure_min_samples=0)

    def _check_parameters(self) -> Streams:
        """Check every parameter before the data are looked at, and open the random streams of this fit."""
        self._plan(1, 1, 1)
        if not isinstance(self.verbose, (int, np.integer, np.bool_)):
            raise ParameterError(f"verbose must be a whole number, or True or False; got {self.verbose!r}.")
        is_charged(self.ledger, self.dataset)
        return Streams(self.random_state)

    @contextmanager
    def _charged(self, X: Any, y: Any, streams: Streams) -> Iterator[OpenCharge]:
        """Charge the ledger, where there is one, from public sizes; the values of X and y are read in the block."""
        if not is_charged(self.ledger, self.dataset):
            private = self.epsilon is not None and math.isfinite(self.epsilon)
            if private:
                self._settle(X)
            with fit_without_ledger(X, lambda: streams.opened) if private else nullcontext():
                yield OpenCharge()
            return
        plan = self._plan(*public_size(X), self._n_models_without_data())
        plan.settle()
        _check_visits(X, plan)
        check_public_sizes(X, y)
        with charging(
            self.ledger, self.dataset, plan.event, delta=plan.delta, adjacency=plan.adjacency, seeded=streams.seeded,
            plan={"estimator": type(self).__name__, **plan.summary()},
        ) as charge:  # fmt: skip
            charge.looking()
            yield charge

    def _settle(self, X: Any) -> None:
        """Refuse what no noise can meet before a value is looked at, where public sizes and classes are known."""
        if getattr(self, "classes", ()) is None:
            return
        try:
            sizes = public_size(X)
        except (TypeError, ValueError):  # not a table, nor is one without rows: refused where they are read, in words
            return
        if min(sizes) > 0:
            self._plan(*sizes, self._n_models_without_data()).settle()

    def _n_models_without_data(self) -> int:
        """Return the number of binary models from constructor parameters alone."""
        return 1

    def _fit_models(
        self, X: Any, targets: list[NDArray[np.float64]], plan: Plan, streams: Streams, charge: OpenCharge
    ) -> Solution:
        charge.check_plan(plan.event)
        _check_visits(X, plan)
        steps = fitted_steps() if plan.is_private else ()
        if plan.is_private:
            warn_of_fitted_steps(steps)
            warn_of_large_delta(plan.delta, plan.n_samples)
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        with team() as threads, progress_bar(self, bool(self.verbose)) as progress:
            rows = self._scaled_rows(X, plan, names, threads)
            solution = plan.solve(rows, targets, streams, threads, progress)
        charge.commit(solution.event)
        self.charge_ = charge.charge
        self.coef_, self.intercept_ = self._unscaled(plan, solution.weights)
        self.n_iter_ = solution.n_steps
        self.guarantee_ = self._receipt(plan, solution, streams.seeded, steps=steps, charge=charge.charge)
        return solution

    def _scaled_rows(self, X: Any, plan: Plan, names: list[str] | None, threads: Team) -> Rows:
        assert self.data_norm is not None
        return make_rows(X, data_norm=float(self.data_norm), constant=plan.intercept, names=names, team=threads)

    def _unscaled(self, plan: Plan, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Turn weights for scaled rows into coefficients and intercepts for the user's rows, one a line."""
        assert self.data_norm is not None
        whole = math.sqrt(1.0 + plan.intercept**2)
        coef = weights[:, : plan.n_features] / (float(self.data_norm) * whole)
        intercept = weights[:, -1] * (plan.intercept / whole) if plan.intercept > 0.0 else np.zeros(len(weights))
        return coef, intercept

    def _assumptions(self) -> tuple[str, ...]:
        return ()

    def _bound_assumption(self) -> str:
        """Return what the receipt says of the public bound on the rows."""
        return f"data_norm = {encode(self.data_norm)} (longer rows were shortened to it)"

    def _penalty(self, plan: Plan) -> dict[str, object]:
        """Return what the receipt says of the penalty or constraint."""
        return {
            "alpha": plan.alpha,
            **({"alpha chosen by auto from": "the number of rows"} if self._has_auto_alpha else {}),
            "intercept_scaling": plan.intercept,
        }

    def _receipt(
        self, plan: Plan, solution: Solution, seeded: bool, *, steps: Sequence[str] = (), charge: Charge | None = None
    ) -> Guarantee:
        """Return the receipt of a run; `sottovoce.report` makes it again from its own parameters, and compares.

        Parameters
        ----------
        plan : Plan
        solution : Solution
            Its event and what rules chose are told; the weights are not looked at.
        seeded : bool
        steps : sequence of str
            Fitted steps before the model in its pipeline.
        charge : Charge or None
        """
        private = math.isfinite(plan.epsilon)
        given = "n_public" if self.n_public is not None else "n_samples"
        return make_receipt(
            epsilon=plan.promised_epsilon,
            delta=plan.delta,
            adjacency=plan.adjacency,
            unit="one row of the table, label included",
            mechanism=plan.mechanism,
            releases=plan.releases,
            event=solution.event,
            assumptions=(
                f"{given} = {plan.n_samples}, n_features = {plan.n_features} and their names",
                self._bound_assumption(),
                "all constructor parameters, chosen without looking at the data",
                *self._assumptions(),
                *plan.assumptions,
            ),
            not_covered=(*fitted_before(steps), *NOT_COVERED) if private else (),
            parameters={
                "estimator": type(self).__name__,
                "solver": plan.solver,
                **({"solver chosen by auto because": plan.choice} if plan.choice else {}),
                "loss": plan.loss.name,
                **self._penalty(plan),
                "models": plan.n_models,
                **plan.details(),
                **solution.chosen,
                **self._public_facts(plan, steps),
            },
            seeded=seeded,
            private=private,
            proof=plan.proof,
            charge=charge,
        )

    def _public_facts(self, plan: Plan, steps: Sequence[str]) -> dict[str, object]:
        """Return what the plan can be made from again."""
        return {
            "n_samples": plan.n_samples,
            "n_features": plan.n_features,
            **({"classes": encode_classes(self.classes_)} if hasattr(self, "classes_") else {}),
            **({"fitted before it in a pipeline": list(steps)} if steps else {}),
            "arguments": arguments_of(self),
        }

    def _tie_receipt(self) -> None:
        """Write the digest of the finished model into the receipt: the last thing that `fit` does."""
        self.guarantee_ = replace(self.guarantee_, model=model_digest(self))

    def _decision(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        weights = np.atleast_2d(self.coef_).T
        if isinstance(X, StreamedTable):
            self._check_columns(X, reset=False)
            scores = np.empty((X.shape[0], weights.shape[1]))
            with closing(X.finite_blocks()) as blocks:
                for place, block in blocks:
                    scores[place] = _products(block, weights)
            return np.asarray(scores + self.intercept_)
        refuse_copy_of_map(X, row_by_row=False)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        scores = safe_sparse_dot(X, weights, dense_output=True) if sp.issparse(X) else _products(X, weights)
        return np.asarray(scores + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # a private model may differ between two fits on the same data, and is noise on a dozen rows
        tags.non_deterministic = self.random_state is None and not (
            self.epsilon is not None and self.epsilon == math.inf
        )
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X and y; see the subclass."""
        raise NotImplementedError


def public_size(X: Any) -> tuple[int, int]:
    """Return the numbers of rows and columns of a table whose values are not looked at."""
    return _num_samples(X), _num_features(X)


def check_public_sizes(X: Any, y: Any) -> None:
    """Refuse, before anything is charged or read, labels that are missing or that do not fit the number of rows."""
    refuse_copy_of_map(X, row_by_row=True)
    if y is None:
        if isinstance(X, StreamedTable) and not X.has_labels:
            X.labels()  # says that there are none
        if not isinstance(X, (StreamedTable, UnreadTable)):
            raise ParameterError("y is missing: give the labels, one for each row of X.")
        return
    if len(getattr(y, "shape", ())) > 1 and tuple(y.shape[1:]) != (1,):
        raise ParameterError(f"y must hold one label for each row of X; got the shape {tuple(y.shape)}.")
    check_consistent_length(X, y)


def _check_visits(X: Any, plan: Plan) -> None:
    if isinstance(X, StreamedTable) and not plan.in_order:
        raise ParameterError(
            f"solver={plan.solver!r} visits the rows in random order, which a table read from disk in blocks does "
            "not offer. Use solver='scd' with a finite epsilon, or convert the table once with its method to_npy: "
            "the memory map that it returns serves every solver."
        )


def warn_if_classes_were_read(classes: NDArray[Any]) -> None:
    """Warn that a list of classes was taken from the data."""
    warnings.warn(
        f"classes were read from y ({list(classes)!r}) and are taken to be public knowledge; the receipt says so. "
        "Give classes=[...] to state them.",
        PrivacyWarning,
        stacklevel=4,
    )


def _products(X: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X times the weights, a few rows at a time: numpy would make a double copy of all of a float32 matrix."""
    out = np.empty((len(X), weights.shape[1]))
    for lo in range(0, len(X), _ROWS):
        np.matmul(X[lo : lo + _ROWS], weights, out=out[lo : lo + _ROWS])
    return out


def _canonical(X: Any) -> Any:
    """Return a CSR matrix without duplicate entries; a copy only where there are some.

    Two entries in one place count twice in a product but not in a norm: left alone they would break the bound on a row.
    A fresh object is made, because cached flags of the user's may be out of date.
    """
    fresh = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape, copy=False)
    try:
        fresh.check_format(full_check=True)
    except ValueError as error:
        raise DataError(f"X is not a valid CSR matrix: {error}.") from error
    if not fresh.has_canonical_format:
        fresh = fresh.copy()
        fresh.sum_duplicates()
    return fresh
