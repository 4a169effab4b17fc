"""The estimators with an L2 penalty: a bound on the norm of a row, weights of rows, and a choice of solvers."""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from sottovoce._entries import entries, numbers_of
from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._plain_data import encode
from sottovoce._shown import quoted
from sottovoce._validation import magnitude, number
from sottovoce._warnings import warn_caller
from sottovoce._whole_fit import whole_fit
from sottovoce.central.data.beside import Remember
from sottovoce.central.data.labels import NEGLIGIBLE, WeighRows
from sottovoce.central.data.lengths import ScaleRows
from sottovoce.central.data.operation import Change, Holder
from sottovoce.central.data.part import RowUnit
from sottovoce.central.data.row_memory import WEIGHT
from sottovoce.central.plan import Plan, TrainingFacts
from sottovoce.central.split import NORM
from sottovoce.estimators._solvers import automatic_alpha, make_plan
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.exceptions import DataError, ParameterError, SottovoceWarning

_LEAST, _MOST = 1e-6, 1e6  # that a bound may be: weights beyond hide all other rows, or none
_RAW: Final = 256.0  # entries beyond it: no bytes of an image, nor counts of words, but incomes and years

# what these estimators take and leave, each declared once
STANDARD_ERRORS: Final[Any] = attribute(
    "ndarray of the same shape, or None",
    "Their standard errors, for sampling and noise together; infinite where the noise hides the coefficients.",
)


def solver_parameter(own: str) -> Any:
    """Return the parameter ``solver``; its text is what an estimator's own solvers are, then the others."""
    text = f"""{own} For comparison: ``"sgd"``: DP-SGD; or a solver object, such as those of
    `sottovoce.papers.dp_scd`. Where each wins is in the guide to solvers."""
    return parameter("str or solver object", default="auto", text=text)


def options_parameter(own: str) -> Any:
    """Return the parameter ``solver_options``, with those of an estimator's own solver."""
    text = f"""Public parameters of the solver: ``n_passes`` and ``calibration_share`` for ``"scd"`` and ``"newton"``;
    ``batch_size``, ``epochs``, ``clipping_norm`` and ``learning_rate`` for ``"sgd"``{own and "; " + own}. None follows
    measured rules, and is what goes with a solver object."""
    return parameter("dict or None", default=None, text=text)


@estimator
class Penalised(DPLinearEstimator):
    """Base of those that bound the norm of a row: an L2 penalty, weights of rows, and a choice of solvers."""

    data_norm: float | str | None = parameter(
        'float in [1e-50, 1e50] or "auto"',
        default="auto",
        text="""Public bound on the Euclidean norm of a row, in the unit of X. Longer rows are shortened to it in
        training. ``"auto"`` releases a bound that most rows keep, with noise, for 1 to 10 % of mu^2, and shortens
        others in predictions, too: give a number where one is known. Without privacy (``epsilon=inf``) it is the
        largest norm. See ``docs/guide/data_norm.md``.""",
    )
    alpha: float | str = parameter(
        'float in [1e-50, 1e50] or "auto"',
        default=1e-5,
        text="""Strength of the L2 penalty for rows in units of ``data_norm``, or of the private bound that most rows
        keep where that is much less. ``"auto"`` follows the public number of rows: 1 / (2 n), at most 1e-3
        and, with a finite epsilon, at least 1e-5.""",
    )
    fit_intercept: bool = parameter(
        default=True, text="Add a constant column. Its weight is penalised like the others, as in liblinear."
    )
    intercept_scaling: float = parameter(
        "float, in [1e-50, 1e50]",
        default=0.2,
        text="""Value of the constant column in units of ``data_norm``. Larger ones learn a large intercept faster and
        cost noise in every weight.""",
    )
    max_sample_weight: float | None = parameter(
        "float in [1e-6, 1e6] or None",
        default=None,
        text="""Public bound on the ``sample_weight`` of a row, needed where `fit` is given any. Weights are clipped to
        [0, max_sample_weight]. They need ``solver="scd"``, which ``"auto"`` then takes. Clip and noise are for a row of
        the largest weight: choose the bound no larger than weights are.""",
    )
    solver: Any = solver_parameter("")
    solver_options: Any = options_parameter("")

    data_norm_: float = attribute("float", "The bound that rows were shortened to: the public one, or a released one.")
    n_iter_: int = attribute(
        "int", "Passes over the data of each model; follows from public facts and noisy releases only."
    )

    _rows = ("data_norm", "longer rows were shortened to it")

    @whole_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train on X and y.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame, ParquetTable or DaskTable of shape (n_samples, n_features)
            Private. float32 and float64 are used as they are, without a copy. A DaskTable needs a solver that visits
            rows in order: ``"scd"``, ``"newton"``, ``"multinomial-scd"``, ``"refinement"`` or ``"adassp"``; others copy
            a ParquetTable to scratch disk.
        y : array of shape (n_samples,)
            Private. Numbers, clipped to ``label_bounds``, or class labels, each in ``classes``. May be left out for a
            ParquetTable that names its target, and must be for a DaskTable.
        sample_weight : array of shape (n_samples,) or None, default None
            Private; what the loss of each row is multiplied by, clipped to [0, ``max_sample_weight``]. The penalty is
            for the mean over n_samples rows, whatever their weights add up to. None is a weight of 1.
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
            Before any noise is drawn: NaN or infinity in X, y or sample_weight, a label outside ``classes``, one class
            only.
        """
        self.check_weights(X, sample_weight)
        self._fit(X, y, sample_weight, groups)
        released = is_auto(self.data_norm) and math.isfinite(self.guarantee_.epsilon)
        if released and self.data_norm_ > _RAW * math.sqrt(self.coef_.shape[-1]):
            with suppress(SottovoceWarning):  # where warnings are errors, the model that was paid for is kept
                warn_caller(
                    f"rows are about {self.data_norm_:,.0f} long (data_norm_, a noisy release): these columns are in "
                    "raw units, and those with large numbers drown the others. Put a DPScaler before the model in a "
                    "DPPipeline, or give public bounds with SchemaEncoder; if all columns have one unit, data_norm=.",
                    SottovoceWarning,
                )
        return self

    def _facts(self, n_samples: int, *, private: bool) -> dict[str, Any]:
        if not is_auto(self.data_norm):
            magnitude(
                "data_norm", self.data_norm,
                remedy="It is a public bound on the Euclidean norm of a row; never compute it from the data. Longer "
                "rows are shortened to it. Or give 'auto', which releases a bound with noise.",
            )  # fmt: skip
        remedy = "Or give 'auto', which follows the public number of rows."
        automatic = automatic_alpha(n_samples, private=private)
        alpha = automatic if is_auto(self.alpha) else magnitude("alpha", self.alpha, remedy=remedy)
        constant = magnitude("intercept_scaling", self.intercept_scaling) * bool(self.fit_intercept)
        norm, weight = is_auto(self.data_norm), weight_bound(self)
        return {"alpha": alpha, "constant": constant, "releases_norm": norm, "weight_bound": weight}

    def _make_plan(self, facts: TrainingFacts, *, tol: float, max_iter: int) -> Plan:
        return make_plan(self.solver, facts, self.solver_options, tol=tol, max_iter=max_iter)

    def _penalty(self, plan: Plan) -> dict[str, object]:
        return {
            "alpha": plan.alpha,
            **({"alpha chosen by auto from": "the number of rows"} if is_auto(self.alpha) else {}),
            "intercept_scaling": plan.intercept,
            **({} if plan.weight_bound is None else {"largest weight of a row": plan.weight_bound}),
        }

    def _scaling(self, plan: Plan, norm: float | None) -> Change:
        self.data_norm_ = float(self.data_norm) if norm is None else norm  # type: ignore[arg-type]
        return ScaleRows(self.data_norm_, plan.intercept)

    def _longest_row(self, plan: Plan, kept: Mapping[str, Any]) -> float | None:
        found = kept.get(NORM, 1.0)
        # a public bound is one that all rows keep, by what its user says; without privacy no row was longer
        is_released = found < 1.0 or (is_auto(self.data_norm) and plan.is_private)
        return float(self.data_norm_ * found) if is_released else None

    def _unscaled(self, plan: Plan, weights: Vector) -> tuple[Vector, Vector]:
        return RowUnit(self.data_norm_, plan.intercept).to_user(weights)

    # --- weights: of classes, and of rows

    def _weigh(self, holder: Holder, sample_weight: Any) -> None:
        weights, constant = _weights_by_name(self), None
        shares = None if weights is None else tuple(each / max(weights.values()) for each in weights.values())
        if self.max_sample_weight is None:
            constant = 1.0
        elif sample_weight is None:
            most = _checked_bound(self.max_sample_weight)
            constant = min(1.0, most) / most
        else:
            given = checked_sample_weights(sample_weight, holder.n_samples, self.max_sample_weight)
            holder.ask(Remember(WEIGHT, given))
        holder.ask(WeighRows(constant, shares))

    def _weight_assumptions(self) -> tuple[str, ...]:
        said, weights, most = [], _weights_by_name(self), weight_bound(self)
        if weights is not None:
            listed = ", ".join(f"{quoted(name)}: {weight!r}" for name, weight in weights.items())
            said.append(f"class_weight = {listed} (public, chosen without counting rows)")
        if self.max_sample_weight is not None:
            given = encode(self.max_sample_weight)
            said.append(
                f"max_sample_weight = {given} (weights were clipped to [0, {given}]; where none were given each row "
                "has 1)"
            )
        if most is not None:
            said.append(
                f"no row has more than the weight {most!r}: clip and noise are made for such a row, so against what a "
                f"row of weight 1 adds the noise is about {most:g} times what it is without weights"
            )
        return tuple(said)


def is_auto(given: object) -> bool:
    return isinstance(given, str) and given == "auto"


def weight_bound(model: Any) -> float | None:
    """Return the public bound on the weight of a row, or None where rows have none."""
    weights = getattr(model, "class_weight", None)
    by_class = None if weights is None else checked_class_weights(weights, model.public_classes())
    most = None if model.max_sample_weight is None else _checked_bound(model.max_sample_weight)
    return most if by_class is None else (1.0 if most is None else most) * max(by_class.values())


def _weights_by_name(model: Any) -> dict[Any, float] | None:
    """Return the weight of each class by its name in the public list, or None where classes have none."""
    given = getattr(model, "class_weight", None)
    return None if given is None else checked_class_weights(given, model.class_names())


def checked_class_weights(given: object, classes: NDArray[Any] | None) -> dict[Any, float] | None:
    """Return the weight of each class by its name, checked, in the order of ``classes`` where these are known.

    Names are compared as the classes are written: ``"1"``, which is what a model file makes of a key 1, is the class 1.
    Raises ParameterError if they are none, or not for just these classes.
    """
    if given is None:
        return None
    if isinstance(given, str) and given == "balanced":
        raise ParameterError(
            "class_weight='balanced' would count the rows of each class, which is a question about the data that costs "
            "budget. Give public weights: class_weight={'no': 1.0, 'yes': 3.0}."
        )
    if not isinstance(given, Mapping) or not given:
        raise ParameterError(f"class_weight must be a dict from classes to public weights, or None; got {given!r}.")
    weights = {name: number(f"class_weight[{name!r}]", weight, at_least=0.0) for name, weight in given.items()}
    if not _LEAST <= max(weights.values()) <= _MOST:
        raise ParameterError(
            f"the largest weight of class_weight must be within [{_LEAST:g}, {_MOST:g}]; got {dict(given)!r}."
        )
    if classes is None:
        return weights
    by_name = {_plain_name(name, classes): weight for name, weight in weights.items()}
    names = [_plain_name(name, classes) for name in classes]
    if len(by_name) != len(weights) or set(by_name) != set(names):
        raise ParameterError(
            f"class_weight must have one weight for each class, 1 where a class is to count as it is: the classes are "
            f"{classes.tolist()!r}; got {dict(given)!r}."
        )
    return {name: by_name[key] for name, key in zip(classes.tolist(), names, strict=True)}


def checked_sample_weights(given: Any, n_samples: int, max_sample_weight: object) -> Vector:
    """Return private weights over their public bound: those beyond are clipped to it, negative ones to 0.

    A refusal of those beyond would answer an exact question about them, for an analyst who chooses the bound. Raises
    DataError if one of them is no finite number.
    """
    most = _checked_bound(max_sample_weight)
    flat = len(getattr(given, "shape", (0,))) == 1
    values = numbers_of(entries(given, "sample_weight") if flat else np.asarray(given))
    if values.shape != (n_samples,):
        raise DataError(f"sample_weight must hold one number for each of {n_samples} rows; got {values.shape}.")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        what = "NaN, or what is no number" if math.isnan(values[bad[0]]) else "infinity"
        raise DataError(
            f"Input sample_weight contains {what}: row {int(bad[0])} ({bad.size} row(s) in all). Replace missing "
            "weights by a public constant before fit."
        )
    shares: Vector = np.clip(values, 0.0, most) / most
    return np.where(shares < NEGLIGIBLE, 0.0, shares)


def _checked_bound(given: object) -> float:
    remedy = "It is a public bound on a row's weight; never compute it from the data. Larger weights are clipped to it."
    return number("max_sample_weight", given, at_least=_LEAST, at_most=_MOST, remedy=remedy)


def _plain_name(name: Any, classes: NDArray[Any]) -> object:
    """Return a class or a key as what it is compared by."""
    if classes.dtype.kind not in "iuf":
        return str(name)
    try:
        return float(name)
    except (TypeError, ValueError):
        return str(name)


def confidence_intervals(self: Any, level: float = 0.95) -> Vector:
    r"""Return confidence intervals for the coefficients of the linear model, noise included.

    The target is beta and b of y = x'beta + b + e with E[e | x] = 0 and equal variances, or for two classes of
    P(y = ``classes_[1]`` | x) = 1 / (1 + exp(-x'beta - b)): the unpenalised coefficients of the population, for rows
    that are not shortened and labels that are not clipped. The centre is therefore `least_squares_` or
    `maximum_likelihood_`, not the penalised `coef_`. With A the released X'X or information matrix, M its inverse, s^2
    the residual variance (1 for two classes) and N the covariance of the noise in the gradient at the centre, all for
    scaled rows, the interval is

    .. math:: \hat\beta_j \pm z_{(1 + level)/2} \sqrt{[M (s^2 A + N) M]_{jj}}.

    It is post-processing of what `fit` released and costs no budget. How it is made, and how well it covers:
    ``docs/guide/intervals.md``.

    Parameters
    ----------
    level : float, in (0, 1), default 0.95
        Coverage of each interval by itself, approximate for large samples.

    Returns
    -------
    ndarray of shape (n_features + 1, 2), or (n_features, 2) without an intercept
        Lower and upper ends, the intercept last. From -inf to inf where the noise hides the coefficients.

    Raises
    ------
    ParameterError
        If the model was trained for persons, or by another solver than ``"adassp"`` (`DPRidge`) or ``"one-step"``
        (`DPLogisticRegression`); with ``"adassp"`` under add-remove adjacency (n is secret) also without an intercept
        or with clipped labels; or if ``level`` is out of range.
    """
    check_is_fitted(self)
    level = number("level", level, above=0.0, below=1.0)
    if self.max_rows_per_group is not None:
        raise ParameterError(
            "confidence intervals are for independent rows, and those of one person are not independent; this model "
            f"has max_rows_per_group={self.max_rows_per_group!r}."
        )
    centre, errors = getattr(self, self._estimates), self.standard_errors_
    if centre is None or errors is None:
        needs, remedy = self._interval_needs
        raise ParameterError(
            f"confidence intervals need {needs}; this model has solver {self.guarantee_.parameters['solver']!r} and "
            f"adjacency {self.adjacency!r}. Fit it with {remedy}."
        )
    half = float(ndtri(0.5 + 0.5 * level)) * errors
    return np.column_stack([centre - half, centre + half])
