"""A scaler and a model, with steps that learn nothing between them: one budget, one plan, one charge, one receipt."""

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from sottovoce._columns import (
    as_array,
    one_dimension_refused,
    refuse_by_type,
    refuse_no_table,
    refuse_same_names,
    refuse_texts,
    typed_columns,
)
from sottovoce._entries import entries
from sottovoce._groups import person_codes
from sottovoce._optional import loaded
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._plain_data import digest
from sottovoce._validation import in_order, number, privacy_budget, refuse_masked, whole_number
from sottovoce._whole_fit import whole_fit
from sottovoce.central.column_scales import ColumnScalesPlan
from sottovoce.central.data.streamed import OutsideTable, RemoteTable, SteppedTable, StreamedTable
from sottovoce.estimators._callers import (
    PAID,
    checked_steps,
    described_step,
    learns_nothing,
    remedy_for,
    row_by_row,
)  # fmt: skip
from sottovoce.estimators.base import (
    ADJACENCY,
    MAX_ROWS,
    N_PUBLIC,
    UNPENALISED,
    Circumstances,
    PrivateEstimator,
    Run,
    absent,
    arguments_of,
    fitted_values,
    model_digest,
    size_before_reading,
)
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.models import circumstances_again, model_again, model_receipt_again
from sottovoce.estimators.pipeline_plan import PipelinePlan, model_epsilon, scaler_share
from sottovoce.estimators.reading import (
    ROWS,
    UnreadTable,
    check_columns,
    check_public_sizes,
    holding_labels,
    labels_of,
    least_rows,
    numbers,
    own_groups,
    public_size,
    without_rows,
)  # fmt: skip
from sottovoce.estimators.remote import AroundModel, OpenedRows, ones, opened_once
from sottovoce.estimators.scaler import MECHANISM, RELEASES, SCALED_SEARCH, DPScaler
from sottovoce.exceptions import ParameterError, PrivacyWarning, SottovoceError
from sottovoce.privacy.events import Event
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.receipts import stated_arguments
from sottovoce.randomness import Purpose, uncounted_fits

_SET_HERE: Final = (
    "epsilon", "delta", "accept_delta", "random_state", "ledger", "dataset", "n_public", "max_rows_per_group",
)  # fmt: skip
_TYPICAL_ENTRY: Final = 3.0  # bound on a scaled entry
_FAR: Final = 1e6  # a cut beyond it bounds no rows that there are


class _OfFit:
    """What a fit leaves in the object itself; scikit-learn's `Pipeline` asks its first step, which is never fitted."""

    def __get__(self, pipeline: object, owner: type | None = None) -> Any:
        raise AttributeError("there is no such thing before a fit on a table that has it.")


@estimator
class DPPipeline(AroundModel, PrivateEstimator[PipelinePlan], Pipeline):  # type: ignore[misc]
    r"""A chain of steps that ends in a private model, with one budget, one charge and one receipt for all of it.

    A `DPScaler` among the steps gets a share of the budget by a public rule, the model what is left. All other steps
    have to be such that learn nothing: `FunctionTransformer`, `Normalizer`, `PolynomialFeatures`, public encoders. What
    learns without noise (`StandardScaler`, `SimpleImputer`, `PCA`, ...) is refused: see ``docs/guide/pipelines.md``. A
    fitted scaler in a `FrozenEstimator` costs nothing again, and the receipt names what it cost.

    Steps are given as to scikit-learn's `Pipeline`, and named in the same way: ``set_params(model__alpha=1e-3)``.
    Budget, ledger, random state, adjacency and ``n_public`` are the pipeline's; those of its steps stay at their
    defaults. Directly behind a scaler, ``data_bound`` may be left out, and ``data_norm="auto"`` of a regression or of
    two classes is the bound that all cut rows keep, within which the solver finds a tighter one.

    Notes
    -----
    Privacy: statement and proof in ``docs/privacy/scaler.md``.

    Examples
    --------
    >>> import numpy as np
    >>> import sottovoce as sv
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.normal(1990, 10, 5000), rng.normal(0.002, 0.001, 5000)])
    >>> y = np.where(X @ [0.1, 1000.0] > 201, "yes", "no")
    >>> model = sv.DPLogisticRegression(classes=["no", "yes"])
    >>> pipeline = sv.DPPipeline([("scale", sv.DPScaler()), ("model", model)], epsilon=1, delta=1e-6, random_state=0)
    >>> pipeline.fit(X, y).score(X, y) > 0.9
    True
    >>> pipeline.guarantee_.epsilon
    1.0
    """

    steps: Any = parameter(
        "list of (str, step)",
        kw_only=False,
        text="The last step is one of sottovoce's estimators; at most one is a `DPScaler`. ``None`` is no step.",
    )
    epsilon: float | None = parameter("float, > 0", default=None, text="Privacy budget of the whole pipeline.")
    scaler_share: float | None = parameter(
        "float in (0, 1) or None",
        default=None,
        text="""Share of the budget (of mu^2 in Gaussian DP) for the scaler. None follows rows, columns and budget: 3 to
        30 per cent, and nothing where the noise would hide every column.""",
    )

    adjacency: str = ADJACENCY
    n_public: int | None = N_PUBLIC
    max_rows_per_group: int | None = MAX_ROWS

    steps_: list[tuple[str, Any]] = attribute("list of (str, step)", "Copies of the steps, fitted.")

    _word = "pipeline"
    n_features_in_ = feature_names_in_ = _OfFit()
    get_metadata_routing = BaseEstimator.get_metadata_routing  # weights and groups are asked of the pipeline itself

    # --- the steps

    def _as_fitted(self) -> Pipeline:
        """Return scikit-learn's pipeline of the steps, fitted or not: its `fit` is without a promise."""
        return Pipeline(getattr(self, "steps_", self.steps))

    @property
    def named_steps(self) -> Bunch:
        """The steps by name: the fitted ones after a fit."""
        return self._as_fitted().named_steps

    def __getitem__(self, ind: Any) -> Any:
        """Return a step by its name or place, or scikit-learn's `Pipeline` of several: the fitted ones after a fit."""
        return self._as_fitted()[ind]

    def checked(self) -> tuple[DPLinearEstimator, DPScaler | None]:
        """Return model and scaler, if the steps are such that can be fitted together."""
        try:
            named = [(name, step) for name, step in in_order("steps", self.steps)]
        except (TypeError, ValueError):
            raise ParameterError(f"steps must be a list of (name, step); got {self.steps!r}.") from None
        if not named:
            raise ParameterError("steps is empty: give at least a model.")
        self._validate_names([name for name, _ in named])
        (last, model), before = named[-1], named[:-1]
        if not isinstance(model, DPLinearEstimator):
            raise ParameterError(
                f"the last step {last!r} must be one of sottovoce's models; got {type(model).__name__}. {SCALED_SEARCH}"
            )
        for name, step in before:
            if isinstance(step, DPScaler) or _is_bought(step):
                continue
            if isinstance(step, PrivateEstimator) or not learns_nothing(step):
                raise ParameterError(
                    f"the step {name!r} ({type(step).__name__}) learns from the data without noise, or is of a class "
                    f"that may, so no receipt could cover it. Use {remedy_for(step)}."
                )
        scalers = [step for _, step in before if isinstance(step, DPScaler)]
        if len(scalers) > 1:
            raise ParameterError(f"at most one step may be a DPScaler; got {len(scalers)}.")
        for name, step in named:
            if not isinstance(step, DPLinearEstimator | DPScaler):
                continue
            self._refuse_own(step, f"step {name!r}", _SET_HERE)
            if step.adjacency not in ("zero-out", self.adjacency):
                raise ParameterError(
                    f"adjacency of the step {name!r} is {step.adjacency!r}, that of the pipeline {self.adjacency!r}: "
                    "give it to DPPipeline."
                )
        return model, scalers[0] if scalers else None

    def _is_scaled(self, scaler: ColumnScalesPlan | None) -> bool:
        """Whether the model sees scaled columns as they are, by a scaler that releases or released something."""
        kept = [step for _, step in self.steps[:-1] if not _is_nothing(step)]
        if kept and _is_bought(kept[-1]):
            return math.isfinite(kept[-1].cut_)
        return scaler is not None and bool(scaler.rounds) and isinstance(kept[-1], DPScaler)

    def _widths(self, n_features: int) -> tuple[int, int]:
        """Return the number of columns that the scaler sees and that the model sees, from public facts."""
        row = getattr(self, "_example", None)
        if row is None or row.shape[1] != n_features:
            row = np.ones((1, n_features))
        scaled = n_features
        for name, step in self.steps[:-1]:
            if isinstance(step, DPScaler):
                scaled = row.shape[1]
            elif _is_bought(step):
                if step.n_features_in_ != row.shape[1]:
                    raise ParameterError(
                        f"the step {name!r} was fitted on {step.n_features_in_} columns, and here are {row.shape[1]}: "
                        "give a DPScaler that is not frozen."
                    )
            elif not _is_nothing(step):
                row = _row_after(name, step, row)
        return scaled, row.shape[1]

    # --- the plan

    def known_models(self) -> int | None:
        return self.checked()[0].known_models()

    def planned_models(self) -> int:
        self.checked()
        return int(self[-1].planned_models())

    def plan_for(self, n_samples: int, n_features: int, n_models: int) -> PipelinePlan:
        model, scaler = self.checked()
        epsilon, delta = privacy_budget(self.epsilon, self.delta)
        scaled, width = self._widths(n_features)
        spent = None
        if scaler is not None:
            whole = self.own_copy(scaler, epsilon=epsilon).plan_for(n_samples, scaled)
            share = self.scaler_share
            if share is None:
                share = scaler_share(epsilon, delta, whole.n_samples, scaled, whole.per_column)
            spent = replace(whole, share=number("scaler_share", share, above=0.0, below=1.0))
        facts = (n_samples, width, n_models) if self._is_scaled(spent) else None
        plan_of = cache(lambda own: self.own_copy(model, epsilon=own, facts=facts).plan_for(n_samples, width, n_models))
        left = epsilon if spent is None else model_epsilon(spent, epsilon, delta, lambda own: plan_of(own).event)
        return PipelinePlan(
            epsilon=epsilon, delta=delta, model=plan_of(left), scaler=spent, model_epsilon=left, n_features=n_features
        )

    def own_copy(
        self, step: Any, *, epsilon: float, facts: tuple[int, int, int] | None = None, seed: int | None = None
    ) -> Any:
        """Return a copy of a private step with the pipeline's parameters, and the bound that follows from a scaler."""
        accepted = None if self.accept_delta is None else self.delta
        own = clone(step).set_params(
            epsilon=epsilon, delta=self.delta, accept_delta=accepted, adjacency=self.adjacency, n_public=self.n_public,
            max_rows_per_group=self.max_rows_per_group, random_state=seed,
        )  # fmt: skip
        if facts is None:
            return own
        last = [one for _, one in self.steps[:-1] if not _is_nothing(one)][-1]
        cut = float(last.cut_ if _is_bought(last) else last.cut)
        if hasattr(own, "data_bound") and own.data_bound is None:
            return own.set_params(data_bound=min(cut, _TYPICAL_ENTRY))
        return _with_public_bound(own, cut, *facts) if getattr(own, "data_norm", None) == "auto" else own

    def _check_table(self, X: Any, plan: PipelinePlan) -> None:
        model, scaler = self.checked()
        alone = all(step is scaler or _is_nothing(step) for _, step in self.steps[:-1])
        if scaler is not None and plan.scaler is not None and alone:
            scaler._check_table(X, plan.scaler)
        model._check_table(X, plan.model)

    def check_columns(self, X: Any, *, reset: bool = True) -> None:
        first = next(step for _, step in self.steps if not _is_nothing(step))
        if isinstance(X, OutsideTable | UnreadTable) or isinstance(first, PrivateEstimator):
            super().check_columns(X, reset=reset)
        else:  # what they may hold is for the step to say
            self._table(without_rows(X), reset=reset, least=0)

    # --- the fit

    @whole_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Scale and train on X and y.

        Parameters
        ----------
        X : array, sparse matrix, data frame, ParquetTable or DaskTable of shape (n_samples, n_features)
            Private. A table on disk stays there: each time that it is read its rows go through the steps. Workers of a
            cluster are sent the steps.
        y : array of shape (n_samples,)
            Private; as the model takes it.
        sample_weight : array of shape (n_samples,) or None, default None
            Private; for the model.
        groups : array of shape (n_samples,) or None, default None
            Private. The person of each row: with ``max_rows_per_group`` the guarantee is for a person. Rows without one
            (None, NaN) are not used.

        Returns
        -------
        self

        Raises
        ------
        ParameterError
            Before any work: a parameter is missing, out of range or does not fit another one; a step that learns
            without noise.
        DataError
            Before anything is released: NaN or infinity, a label outside ``classes``.
        """
        self.check_groups(X, groups)
        self.checked()[0].check_weights(X, sample_weight)
        rows = {name: one for name, one in (("sample_weight", sample_weight), ("groups", groups)) if one is not None}
        self._example = example_of(X)
        refuse_same_names(X)
        if isinstance(X, OutsideTable):
            check_public_sizes(X, y)
        elif y is None:
            validate_data(self, X, y, skip_check_array=True)  # says that y is missing
        if isinstance(X, RemoteTable) and self.known_models() is None:
            raise ParameterError("classes is missing: a pipeline on a cluster is planned before labels are read.")
        try:
            with self.running(X, y) as run, opened_once(X) as table:
                if (own := own_groups(X)) is not None:
                    rows["groups"] = own()
                self._train(table, y, rows, run)
        finally:
            self.__dict__.pop("_example", None)
        return self

    def _train(self, X: Any, y: Any, rows: dict[str, Any], run: Run[PipelinePlan]) -> None:
        X = self._table(X, reset=True, least=least_rows(self))
        if not isinstance(X, OutsideTable) or y is not None:
            check_consistent_length(X, y)
        prototype: DPLinearEstimator = clone(self.steps[-1][1])
        if prototype.known_models() is None:
            y = labels_of(X, y)
            prototype.read_labels(holding_labels(entries(y)))
        n_samples, n_features = public_size(X)
        plan = run.plan_for(n_samples, n_features, prototype.planned_models())
        run.begin(plan)
        persons = None if "groups" not in rows else person_codes(rows["groups"], n_samples)
        fitted: list[tuple[str, Any]] = []
        scaler: DPScaler | None = None
        for name, step in self.steps[:-1]:
            if isinstance(step, DPScaler):
                assert plan.scaler is not None
                step = scaler = self.own_copy(step, epsilon=plan.epsilon)
                scaler._check_table(X, plan.scaler)
                scaler.release(scaler.read(X), plan.scaler, run.streams, persons)
                X = _after(step, X)
            elif _is_bought(step):
                step = copy.copy(step.estimator)
                X = _after(step, X)
            elif not _is_nothing(step):
                step = row_by_row(step)
                if plan.scaler is not None and plan.scaler.centred and getattr(step, "sparse_output", None) == "auto":
                    step.set_params(sparse_output=False)  # zeros are moved, and are no zeros any more
                if isinstance(X, OutsideTable):
                    X = _after(step.fit(ones(X)), X)
                elif public_size(X)[0] or hasattr(step, "schema"):
                    X = _named(step.fit_transform, X)
                else:  # most steps take no table without rows
                    X = step.fit_transform(example_of(X))[:0]
            fitted.append((name, step))
        if plan.is_private:
            run.streams.generator(Purpose.NOISE)  # warns of a seed that was used before; below nothing warns
        seed = int(run.streams.generator(Purpose.SAMPLING).integers(2**63)) if run.streams.seeded else None
        model = self.own_copy(
            self.steps[-1][1],
            epsilon=plan.model_epsilon,
            seed=seed,
            facts=(n_samples, plan.model.n_features, plan.model.n_models) if self._is_scaled(plan.scaler) else None,
        )
        with warnings.catch_warnings(), uncounted_fits():
            warnings.simplefilter("ignore", PrivacyWarning)  # the pipeline has given them
            model.fit(X, y, **rows)
        part = model.guarantee_
        event = plan.event_of(part.event)
        of_run = run.commit(event)
        self.charge_ = of_run.charge
        self.steps_ = [*fitted, (self.steps[-1][0], model)]
        of_model, others = of_run._replace(model=self._digest()), _described(self.steps[:-1])
        self.guarantee_ = pipeline_receipt(plan, part, event, of_model, scaler=scaler, others=others)
        # parts are not told apart: whoever gets one of them gets the receipt of the whole
        for (_, given), (_, step) in zip(self.steps, self.steps_, strict=True):
            if isinstance(step, PrivateEstimator) and not _is_bought(given):
                step.guarantee_, step.charge_ = self.guarantee_, self.charge_

    def _digest(self) -> str:
        if self._can_fold():
            return model_digest(self.folded())
        parts = [step.fitted() if isinstance(step, DPScaler) else None for _, step in self.steps_[:-1]]
        return digest({"steps": parts, "model": fitted_values(self.steps_[-1][1])})

    # --- what comes out

    def encoder(self) -> Any:
        """Return the `SchemaEncoder` that the pipeline starts with, fitted; None if there is none."""
        steps = [step for _, step in self.steps_[:-1] if not _is_nothing(step)]
        own = loaded("sottovoce.tables.transformer")
        return steps[0] if own is not None and steps and type(steps[0]) is own.SchemaEncoder else None

    def _can_fold(self) -> bool:
        encoder = self.encoder()
        return all(_is_nothing(one) or one is encoder or isinstance(one, DPScaler) for _, one in self.steps_[:-1])

    def folded(self) -> DPLinearEstimator:
        """Return one model that predicts from tables in raw units, with the receipt of the pipeline.

        Its coefficients are those of the scaled columns, over their scales. Columns are first cut to its
        ``column_bounds_``, as the scaler does. It can be stored (`save_model`) and signed like any other. Behind a
        `SchemaEncoder` it predicts from what that makes of a table, which its schema says.

        Raises
        ------
        ParameterError
            If there are steps other than a scaler and a `SchemaEncoder` at the start: no coefficients stand for them.
        """
        check_is_fitted(self, "steps_")
        if not self._can_fold():
            raise ParameterError(
                "only a SchemaEncoder at the start, a scaler and a model become one model; here are other steps. Use "
                "to_sklearn(), or pickle."
            )
        model: DPLinearEstimator = copy.copy(self[-1])
        for _, step in self.steps_[:-1]:
            if isinstance(step, DPScaler):
                model.coef_ = model.coef_ / step.scale_
                model.intercept_ = model.intercept_ - model.coef_ @ step.location_
                if model.row_bound_ is not None:
                    model.row_unit_ = step.location_, step.scale_
                if math.isfinite(step.cut_):
                    reach = step.cut_ * step.scale_
                    model.column_bounds_ = step.location_ - reach, step.location_ + reach
                for name in UNPENALISED:
                    if getattr(model, name, None) is not None:
                        setattr(model, name, None)  # of scaled columns
        encoder = self.encoder()
        model.n_features_in_ = self.n_features_in_ if encoder is None else len(encoder.get_feature_names_out())
        if encoder is None and hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        return model

    coef_ = intercept_ = absent(
        "a DPPipeline has no coefficients: its scaler cuts entries, which coefficients alone do not tell. folded() has "
        "those in the units of the table, with the bounds to which it cuts columns."
    )
    fit_transform = fit_predict = transform = inverse_transform = get_feature_names_out = score_samples = absent(
        "a DPPipeline ends in a private model: it has no transform, and steps are fitted by its fit alone. After that "
        "pipeline[:-1] is scikit-learn's pipeline of the fitted steps before the model, which transforms."
    )
    set_callbacks = transform

    def to_sklearn(self, **options: Any) -> Pipeline:
        """Return a fitted scikit-learn pipeline of plain parts that predicts the same.

        It carries no receipt: keep ``guarantee_`` with it. ``options`` are those of the model's own ``to_sklearn``.
        """
        check_is_fitted(self, "steps_")
        *before, (name, model) = self.steps_
        plain = [(key, step.to_sklearn() if hasattr(step, "to_sklearn") else step) for key, step in before]
        return Pipeline([*plain, (name, model.to_sklearn(**options))])

    def _before_model(self, X: Any) -> Any:
        X = self._table(X, reset=False)
        for _, step in self.steps_[:-1]:
            X = X if _is_nothing(step) else _after(step, X)
        return X

    def _table(self, X: Any, *, reset: bool, least: int = 1) -> Any:
        """Return X as the first step takes it; its columns are kept, or compared."""
        if isinstance(X, OutsideTable):
            check_columns(self, X, reset=reset)
            return X
        refuse_no_table(X)
        refuse_masked("X", X)
        first = next(step for _, step in self.steps if not _is_nothing(step))
        by_name = hasattr(first, "schema") or hasattr(first, "transformers")
        if _is_frame(X) or (by_name and typed_columns(X)):
            refuse_same_names(X)
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        if isinstance(X, (list, tuple)):  # of one type whatever the rows hold: a step may treat whole numbers otherwise
            if not hasattr(first, "schema"):
                return numbers(self, X, reset=reset, **ROWS)
            X = as_array(X, object)
        # of polars or Arrow, whose times numpy would read as numbers
        if hasattr(X, "columns") or getattr(getattr(X, "dtype", None), "kind", "") == "c":
            refuse_by_type(X)
        checks = {"accept_sparse": "csr", "dtype": None, "ensure_all_finite": False, "ensure_min_samples": least}
        with one_dimension_refused():
            rows = validate_data(self, X, reset=reset, **checks)
        if rows.dtype.kind == "O" and hasattr(X, "columns") and isinstance(first, (DPScaler, DPLinearEstimator)):
            return numbers(self, X, reset=reset, **ROWS)  # as these do, with names, which an array has not
        return rows

    def _prototype(self) -> Any:
        return self.steps[-1][1]

    def _model(self) -> Any:
        check_is_fitted(self, "steps_")
        return self.steps_[-1][1]

    def _sk_visual_block_(self) -> Any:
        return self._as_fitted()._sk_visual_block_()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "steps_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def pipeline_receipt(
    plan: PipelinePlan, part: Guarantee, event: Event, run: Circumstances, *, scaler: DPScaler | None,
    others: Sequence[str],
) -> Guarantee:  # fmt: skip
    """Return the receipt of a pipeline; ``part`` is that of its model alone, ``others`` its steps without noise."""
    scaled = () if plan.scaler is None or scaler is None or not plan.scaler.rounds else (MECHANISM,)
    facts: dict[str, object] = {"n_features": plan.n_features, "steps that learn nothing": list(others)}
    at_scaler = "" if plan.scaler is None else f", and {plan.scaler.n_features} where columns are scaled"
    if plan.scaler is not None and scaler is not None:
        share = {"columns scaled": plan.scaler.n_features, "share": plan.scaler.share}
        facts |= {**share, "scaler": arguments_of(scaler)}
    return run.receipt(
        plan,
        {**part.parameters, **plan.details(), "pipeline": facts},
        last={},
        mechanism="; then, on scaled columns: ".join((*scaled, part.mechanism)),
        releases=(*(RELEASES if scaled else ()), *part.releases),
        event=event,
        assumptions=(
            *(scaler.assumptions() if scaler is not None else ()),
            *((f"n_features = {plan.n_features} before all steps{at_scaler}",) if others else ()),
            *(
                f"{what} treats each row by itself, by "
                + ("what it released" if PAID in what else "rules that are public")
                for what in others
            ),
            *part.assumptions,
        ),
        proof="docs/privacy/scaler.md" if scaled else part.proof,
    )


def receipt_again(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    """Return the receipt that a pipeline with these parameters gets."""
    facts, model = parameters["pipeline"], model_again(parameters)
    scaler = None if "scaler" not in facts else DPScaler(**stated_arguments({"arguments": facts["scaler"]}))
    model_plan = model.plan_for(parameters["n_samples"], parameters["n_features"], parameters["models"])
    others, scaled = checked_steps(facts["steps that learn nothing"]), None
    n_features = whole_number("n_features", facts["n_features"], at_least=1)
    if not others and {n_features, facts.get("columns scaled", n_features)} != {parameters["n_features"]}:
        raise ParameterError("no step makes other columns, and their numbers differ.")
    if scaler is not None:
        shared = "delta", "adjacency", "n_public", "max_rows_per_group", "accept_delta"
        if any(getattr(scaler, name) != getattr(model, name) for name in shared):
            raise ParameterError(f"scaler and model do not have the same {', '.join(shared)}.")
        scaled = scaler.plan_for(parameters["n_samples"], facts["columns scaled"], share=facts["share"])
    whole = model_plan if scaled is None else scaled
    plan = PipelinePlan(
        epsilon=whole.epsilon, delta=whole.delta, model=model_plan, scaler=scaled, model_epsilon=model_plan.epsilon,
        n_features=n_features,
    )  # fmt: skip
    part = model_receipt_again(model, model_plan, receipt, parameters)
    return pipeline_receipt(
        plan, part, plan.event_of(part.event), circumstances_again(receipt, parameters), scaler=scaler,
        others=others,
    )  # fmt: skip


def _is_nothing(step: Any) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _is_bought(step: Any) -> bool:
    """Tell whether a step is a frozen scaler that an earlier fit paid for."""
    frozen = type(step) is FrozenEstimator and isinstance(step.estimator, DPScaler)
    return frozen and getattr(step.estimator, "guarantee_", None) is not None


def _described(steps: Sequence[tuple[str, Any]]) -> list[str]:
    return [described_step(name, step) for name, step in steps if not (_is_nothing(step) or isinstance(step, DPScaler))]


def _with_public_bound(
    model: DPLinearEstimator, cut: float, n_samples: int, width: int, n_models: int
) -> DPLinearEstimator:
    """Return the model with the bound that all cut rows keep, if its solver looks for a shorter one within it.

    Of several classes it would find one that is too long: there ``data_norm="auto"`` is better.
    """
    if n_models > 1 or cut > _FAR or not math.isfinite(model.epsilon or math.inf):
        return model
    bounded: DPLinearEstimator = clone(model).set_params(data_norm=cut * math.sqrt(width))
    split = getattr(bounded.plan_for(n_samples, width, n_models), "split", None)
    return bounded if split is not None and split.shortens_rows else model


def _is_frame(X: Any) -> bool:
    pandas = loaded("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def _after(step: Any, X: Any) -> Any:
    """Return rows after a fitted step; those of a table on disk go through it each time that they are read."""
    if isinstance(X, OpenedRows):
        return X.after(step.scaled if isinstance(step, DPScaler) else step.transform)
    if isinstance(X, StreamedTable) and not isinstance(step, DPScaler):
        return SteppedTable(X, step.transform)
    return _named(step.transform, X)


def _named(step: Callable[[Any], Any], X: Any) -> Any:
    """Return rows after a step; where it fails over texts, their columns are named, and no cell is shown."""
    try:
        with np.errstate(all="ignore"):  # a warning of a quotient by 0, say, would tell of a row
            return step(X)
    except SottovoceError:
        raise
    except (TypeError, ValueError):
        refuse_texts(X, by_cell=True)
        raise


def example_of(X: Any) -> Any:
    """Return a row of ones with the container and the column names of X: public facts."""
    if _is_frame(X):
        return X.__class__(np.ones((1, X.shape[1])), columns=X.columns)
    if names := [name for name, _ in typed_columns(X)]:  # of polars or Arrow
        return getattr(type(X), "from_pydict", type(X))({name: [1.0] for name in names})
    if sp.issparse(X):
        return sp.csr_array(np.ones((1, public_size(X)[1])))
    if isinstance(X, np.ndarray) and X.ndim == 2:  # also without rows
        return np.ones((1, X.shape[1]))
    size = size_before_reading(X) if isinstance(X, (list, tuple)) else None  # None of texts
    return None if size is None else np.ones((1, size[1]))


def _row_after(name: str, step: Any, row: Any) -> Any:
    if hasattr(step, "schema") and hasattr(step, "get_feature_names_out"):  # a public encoder knows its columns
        return np.ones((1, len(clone(step).fit(row).get_feature_names_out())))
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            return row_by_row(step).fit_transform(row)
    except Exception as error:
        raise ParameterError(
            f"the step {name!r} ({type(step).__name__}) fails on a row of ones, by which the number of its columns is "
            f"found before data are read: {error}. A step that reads texts goes before: "
            "make_pipeline(HashingVectorizer(), DPPipeline(...))."
        ) from error
