"""What the linear estimators share: checks of public facts, the fit, the receipt, scores of rows."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, ClassVar, Final, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sottovoce._columns import refuse_by_type
from sottovoce._groups import person_codes, rows_by_person
from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._plain_data import encode
from sottovoce._validation import number, whole_number
from sottovoce._whole_fit import whole_fit
from sottovoce.central.core import Driven, drive
from sottovoce.central.core import Progress as Report
from sottovoce.central.data.beside import UseRows, check_room_at_hand
from sottovoce.central.data.labels import Targets
from sottovoce.central.data.lengths import measure_rows
from sottovoce.central.data.operation import Change, Holder
from sottovoce.central.data.streamed import RemoteTable, StreamedTable
from sottovoce.central.plan import Plan, Solution, Takes, TrainingFacts
from sottovoce.estimators.base import (
    ADJACENCY,
    MAX_ROWS,
    N_PUBLIC,
    Circumstances,
    PrivateEstimator,
    Run,
    arguments_of,
    encode_classes,
    model_digest,
)
from sottovoce.estimators.reading import (
    UnreadTable,
    check_columns,
    check_public_sizes,
    holding,
    is_plain,
    numbers,
    own_groups,
    products,
    refuse_beside,
    refuse_copy_of_map,
    shares_within,
)  # fmt: skip
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.losses import Loss
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.randomness import Purpose

_ON_CLUSTER: Final = (
    "rows were held by workers of a cluster: who has a machine of it, or can reach its scheduler, sees them. Each row "
    "counts once in each sum, whichever workers died (docs/privacy/cluster.md)",
)


@estimator
class DPLinearEstimator(PrivateEstimator[Plan]):
    """Base of the linear estimators: subclasses say what labels are, and how rows and weights are bounded."""

    fit_intercept: bool = parameter("bool", default=True, text="Add a constant column.")
    max_iter: int = parameter("int", default=10_000, text="Cap on the epochs of a run with ``epsilon=inf``.")
    tol: float = parameter(
        "float", default=1e-7, text="Relative duality gap at which a run with ``epsilon=inf`` stops."
    )
    verbose: int = parameter("int", default=0, text="1 shows a progress bar on stderr.")
    adjacency: str = ADJACENCY
    n_public: int | None = N_PUBLIC
    max_rows_per_group: int | None = MAX_ROWS

    coef_: Vector = attribute("ndarray")
    intercept_: Any = attribute("float or ndarray")
    n_iter_: int = attribute("int")
    column_bounds_: tuple[Vector, Vector] | None = attribute(
        "two ndarrays of shape (n_features,), or None",
        "Bounds to which columns are cut before they are multiplied, of a model that a `DPPipeline` was "
        "folded into. None cuts nothing.",
    )
    row_bound_: float | None = attribute(
        "float or None",
        "Released bound that most rows keep. Longer ones are shortened to it before they are multiplied, in "
        "predictions as in training. None shortens none.",
    )
    row_unit_: tuple[Vector, Vector] | None = attribute(
        "two ndarrays of shape (n_features,), or None",
        "What is taken from a row, and what it is divided by, before its length is measured, of a model that a "
        "`DPPipeline` was folded into. None for the row as it is.",
    )

    _loss: ClassVar[Loss]
    _rows: ClassVar[tuple[str, str]]  # the parameter that bounds the rows, and what happens to those beyond
    _estimates: ClassVar[str | None] = None  # attribute for unpenalised coefficients, of models whose solvers can tell

    # --- what the labels are: `DPLinearRegressor`, `DPLinearClassifier`

    def _label_bound(self) -> float | None:
        return None

    def _label_unit(self) -> float:
        """Return what a label of size 1 means in the unit of y."""
        return 1.0

    @abstractmethod
    def _label_assumptions(self) -> tuple[str, ...]:
        """Return what a receipt says of the public facts about the labels."""

    def shared_budget(self, solver: str) -> tuple[str, ...]:
        """Return what a receipt says of how the models of several classes share the budget."""
        return ()

    @abstractmethod
    def read_labels(self, holder: Holder) -> None:
        """Have the labels read where they are: numbers moved into public bounds, or classes, whose list is kept."""

    # --- how rows and weights are bounded: `Penalised`, `OnBall`

    @abstractmethod
    def _facts(self, n_samples: int, *, private: bool) -> dict[str, Any]:
        """Return the penalty, the value of the intercept's column, and what is known of norms and weights."""

    @abstractmethod
    def _make_plan(self, facts: TrainingFacts, *, tol: float, max_iter: int) -> Plan: ...

    @abstractmethod
    def _penalty(self, plan: Plan) -> dict[str, object]:
        """Return what the receipt says of the penalty or constraint."""

    @abstractmethod
    def _scaling(self, plan: Plan, norm: float | None) -> Change:
        """Return what cuts measured rows to their bound; ``norm`` is the released one, where none is public."""

    @abstractmethod
    def _unscaled(self, plan: Plan, weights: Vector) -> tuple[Vector, Vector]:
        """Turn weights for scaled rows into coefficients and intercepts for the user's rows, one a line."""

    def _longest_row(self, plan: Plan, kept: Mapping[str, Any]) -> float | None:
        """Return the length to which rows were shortened, from what was released; None: they were not."""
        return None

    def _weigh(self, holder: Holder, sample_weight: Any) -> None:
        """Set the weights of the rows over their bound, where they have any."""

    def _weight_assumptions(self) -> tuple[str, ...]:
        """Return what a receipt says of the weights of rows."""
        return ()

    def _check_table(self, X: Any, plan: Plan) -> None:
        if isinstance(X, RemoteTable) and Takes.ROWS_IN_ORDER not in plan.takes:
            raise ParameterError(
                f"solver={plan.solver!r} needs all rows in one process, which a table on a cluster does not offer. "
                "Train on one machine, from the same files, or take a solver that asks for sums: 'scd' with a finite "
                "epsilon, or, for the losses that they are for, 'newton', 'multinomial-scd', 'refinement' or 'adassp'."
            )
        if isinstance(X, RemoteTable) and plan.cuts_persons and plan.neighbours.rows > 1:
            raise ParameterError(
                f"max_rows_per_group must be 1 for solver={plan.solver!r} and a table on a cluster: it cuts what the "
                "rows of a person add together. These can lie in two parts of the table; whether they do is private. "
                "Or use solver='newton', 'gd', 'refinement' or 'adassp', or train on one machine, from the same files."
            )
        if plan.max_rows_per_group is not None or Takes.ROWS_IN_ORDER not in plan.takes:
            check_room_at_hand(X, plan.n_samples, plan.n_features)

    def check_weights(self, X: Any, sample_weight: Any) -> None:
        """Refuse, from public facts, weights of rows that the model does not take, or that have no bound."""
        if sample_weight is None:
            return
        if not hasattr(self, "max_sample_weight"):
            raise ParameterError(f"{type(self).__name__} takes no sample_weight. Leave it out.")
        if self.max_sample_weight is None:
            raise ParameterError(
                "max_sample_weight is missing: with sample_weight (which bagging gives, too), noise is made for "
                "the heaviest row that there can be. Give a public bound; larger weights are clipped to it."
            )
        refuse_beside(X, sample_weight=sample_weight)

    # --- the same for all

    def plan_for(self, n_samples: int, n_features: int, n_models: int) -> Plan:
        given = self.public_facts(n_samples, n_features)
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise ParameterError(f"fit_intercept must be True or False; got {self.fit_intercept!r}.")
        if not isinstance(self.verbose, (int, np.integer, np.bool_)):
            raise ParameterError(f"verbose must be a whole number, or True or False; got {self.verbose!r}.")
        of_bound = self._facts(given["n_samples"], private=math.isfinite(given["epsilon"]))
        facts = TrainingFacts(loss=self._loss, n_models=n_models, label_bound=self._label_bound(), **of_bound, **given)
        tol, max_iter = number("tol", self.tol, above=0.0), whole_number("max_iter", self.max_iter, at_least=1)
        return self._make_plan(facts, tol=tol, max_iter=max_iter)

    @whole_fit
    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Train on X and y.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame, ParquetTable or DaskTable of shape (n_samples, n_features)
            Private. float32 and float64 are used as they are, without a copy, unless entries have to be clipped to
            ``data_bound``. The models with a ``radius`` copy a ParquetTable to scratch disk, and take no DaskTable.
        y : array of shape (n_samples,)
            Private. Numbers, clipped to ``label_bounds``, or class labels, each in ``classes``. May be left out for a
            ParquetTable that names its target, and must be for a DaskTable.
        groups : array of shape (n_samples,) or None, default None
            Private. The person of each row, a number or a string: with ``max_rows_per_group`` the guarantee is for a
            person. Rows without one (None, NaN) are not used. The used rows are copied: those of a table on
            disk to scratch disk. Not for a DaskTable.

        Returns
        -------
        self

        Raises
        ------
        ParameterError
            Before any work: a parameter is missing, out of range or does not fit another one.
        DataError
            Before any noise is drawn: NaN or infinity in X or y, a label outside ``classes``, one class only.
        """
        return self._fit(X, y, groups=groups)

    def _fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        if not (is_plain(X) and groups is None and self.max_rows_per_group is None):
            refuse_by_type(X)
            self.check_groups(X, groups)
            if isinstance(X, RemoteTable):
                check_public_sizes(X, y)
        with self.running(X, y, bounded=sample_weight is not None or groups is not None) as run:
            own, given = own_groups(X), X
            if isinstance(X, UnreadTable):
                X, y = X.read()
            groups = own() if own is not None else groups
            with holding(self, X, y) as holder:
                persons = None if groups is None else person_codes(groups, holder.n_samples)
                self.read_labels(holder)
                plan = run.plan_for(holder.n_samples, holder.n_features, run.models or self.planned_models())
                if plan.weight_bound is not None:
                    self._weigh(holder, sample_weight)
                if X is not given or run.models is None:  # otherwise it was looked at before the charge
                    self._check_table(X, plan)
                self._train(holder, persons, plan, run)
        return self

    def _train(
        self,
        holder: Holder,
        persons: NDArray[np.int64] | None,
        plan: Plan,
        run: Run[Plan],
    ) -> None:
        run.begin(plan)
        with progress_bar(self, bool(self.verbose), holder.status) as progress:
            plan.check_size(holder.n_samples)
            places, starts = None, None
            if persons is not None:
                assert plan.max_rows_per_group is not None
                coins = run.streams.generator(Purpose.PERSONS)
                places, starts = rows_by_person(persons, plan.max_rows_per_group, coins)
                if not (len(places) or plan.is_private):
                    raise DataError("groups names nobody, so no row is left to train on.")
            # all rows are looked at, whichever were drawn: no refusal depends on the coins
            measure_rows(holder, getattr(self, "feature_names_in_", None))
            if places is not None or Takes.ROWS_IN_ORDER not in plan.takes:
                holder.ask(UseRows(places, starts if plan.cuts_persons and plan.neighbours.rows > 1 else None))
            one_by_one = plan.loss.is_classification and not plan.joint
            holder.ask(Targets(plan.n_models if one_by_one else None))
            driven = drive(lambda: plan.asks(partial(self._scaling, plan)), holder, run.streams, progress)
        of_run = run.commit(driven.event)
        self.charge_, self.n_iter_ = of_run.charge, driven.result.n_steps
        self.column_bounds_, self.row_unit_ = None, None
        self.row_bound_ = self._longest_row(plan, driven.kept)
        self._take(plan, driven.result)
        of_model = of_run._replace(model=model_digest(self))  # the last thing: the model is finished
        self.guarantee_ = self.receipt(plan, driven, of_model, on_cluster=holder.on_cluster)

    def _take(self, plan: Plan, solution: Solution) -> None:
        self.coef_, self.intercept_ = self._unscaled(plan, solution.weights)
        if self._estimates is not None:
            found = solution.unpenalised
            values: list[Any] = [None, None]
            if found is not None:
                coef, last = self._unscaled(plan, np.stack([found.estimates, found.standard_errors]))
                last[0] += self._offset(solution)
                values = [np.append(*one) for one in zip(coef, last, strict=True)] if self.fit_intercept else list(coef)
            for name, value in zip((self._estimates, "standard_errors_"), values, strict=True):
                setattr(self, name, value)

    def _offset(self, solution: Solution) -> float:
        """Return what is added to every prediction."""
        return 0.0

    def within_bounds(self, X: Any) -> Any:
        """Return rows with their columns cut to ``column_bounds_``: each entry by itself.

        Sparse rows become dense where zeros would be no zeros any more: such a model was trained on dense ones.
        """
        if self.column_bounds_ is None:
            return X
        low, high = self.column_bounds_
        if isinstance(X, np.ndarray):
            return np.clip(X, low, high)
        if not ((low <= 0.0) & (high >= 0.0)).all():
            return np.clip(X.toarray(), low, high)
        return sp.csr_array((np.clip(X.data, low[X.indices], high[X.indices]), X.indices, X.indptr), shape=X.shape)

    def receipt(
        self, plan: Plan, driven: Driven[Solution], run: Circumstances, *, on_cluster: bool = False
    ) -> Guarantee:
        """Return the receipt of a run; `sottovoce.report` makes it again from its own parameters, and compares.

        Of the run, event, words and what was kept are told; the weights are not looked at. ``on_cluster`` says that the
        rows were held by workers of a cluster.
        """
        name, beyond = self._rows
        return run.receipt(
            plan,
            {
                "estimator": type(self).__name__,
                "solver": plan.solver,
                **({"solver chosen by auto because": plan.choice} if plan.choice else {}),
                "loss": plan.loss.name,
                **self._penalty(plan),
                **plan.objective_details(),
                "models": plan.n_models,
                **plan.norm_details(),
                **plan.details(),
                **driven.kept,
                "n_samples": plan.n_samples,
                "n_features": plan.n_features,
                **({"classes": encode_classes(self.classes_)} if hasattr(self, "classes_") else {}),
            },
            last={**({"rows held by": "workers of a cluster"} if on_cluster else {}), "arguments": arguments_of(self)},
            mechanism=plan.mechanism,
            releases=driven.words,
            event=driven.event,
            assumptions=(
                self.public_sizes(plan.n_samples, plan.n_features),
                *(() if plan.releases_norm else (f"{name} = {encode(getattr(self, name))} ({beyond})",)),
                "all constructor parameters, chosen without looking at the data",
                *self._label_assumptions(),
                *self._weight_assumptions(),
                *self.group_assumptions(),
                *self.shared_budget(plan.solver),
                *plan.assumptions,
                *(_ON_CLUSTER if on_cluster else ()),
            ),
            proof=plan.proof,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def to_sklearn(self) -> Any:
        """Return the trained model as a plain estimator of scikit-learn."""

    def _scores(self, X: Any) -> Vector:
        """Return the score of each row by each binary model."""
        check_is_fitted(self)
        weights = np.atleast_2d(self.coef_).T
        if isinstance(X, StreamedTable):
            check_columns(self, X, reset=False)
            scores = np.empty((X.shape[0], weights.shape[1]))
            with closing(X.finite_blocks()) as blocks:
                for place, block in blocks:
                    scores[place] = self._multiplied(block, weights, X.first_row + place.start, X.whole_rows)
            return np.asarray(scores + self.intercept_)
        refuse_copy_of_map(X, row_by_row=False)
        X = numbers(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return np.asarray(self._multiplied(X, weights) + self.intercept_)

    def _multiplied(self, X: Any, weights: Vector, first: int = 0, n_rows: int | None = None) -> Vector:
        """Return rows, bounded as in training, times the weights; ``first`` and ``n_rows`` as in `products`."""
        X = self.within_bounds(X)
        return self.of_shortened(products(X, weights, first, n_rows), X)

    def of_shortened(self, scores: Vector, X: Any) -> Vector:
        """Return what the scores of rows would be, less the intercept, if each were shortened to ``row_bound_``."""
        if self.row_bound_ is None:
            return scores
        share = shares_within(X, self.row_bound_, self.row_unit_)[:, None]
        fixed = 0.0 if self.row_unit_ is None else np.atleast_2d(self.coef_) @ self.row_unit_[0]
        moved = fixed + np.where(share > 0.0, share * (scores - fixed), 0.0)
        return np.where(share < 1.0, moved, scores)  # rows within the bound keep theirs, bit by bit


@contextmanager
def progress_bar(owner: object, shown: bool, beside: Callable[[], str] | None = None) -> Iterator[Report]:
    """Yield a function ``report(step, of)``; it draws a bar when ``shown`` and stderr is a terminal, or a notebook.

    What ``beside`` returns is shown with it: a few words that change.
    """
    if not shown:
        yield lambda step, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)

    def name() -> str:
        return f"{type(owner).__name__} {'' if beside is None else beside()}".rstrip()

    if console.is_jupyter:
        yield _cell_bar(name)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name(), total=None)
        yield lambda step, of: bar.update(task, completed=step, total=of, description=name())


def _cell_bar(name: Callable[[], str]) -> Report:
    """Return a report that draws below a notebook's cell; rich's own needs ipywidgets, and is lost when it is saved."""
    from IPython.display import HTML, display

    percent = -1
    handle: Any = None

    def report(step: int, of: int) -> None:
        nonlocal percent, handle
        if 100 * step // of == percent:
            return
        percent = 100 * step // of
        shown = HTML(f"{name()} <progress value='{step}' max='{of}'></progress> {step} of {of} steps")
        if handle is None:
            handle = display(shown, display_id=True)
        else:
            handle.update(shown)

    return report
