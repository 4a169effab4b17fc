"""The vertical estimators: ridge, logistic regression, linear SVM over columns at several parties."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import accuracy_score, r2_score

from sottovoce._plain_data import encode
from sottovoce._validation import bounds, number
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.losses import Hinge, Logistic, Loss, SmoothedHinge, Squared
from sottovoce.vertical.estimators.base import VerticalEstimator

__all__ = [
    "VerticalClassifier",
    "VerticalLinearSVC",
    "VerticalLogisticModel",
    "VerticalLogisticRegression",
    "VerticalRegressor",
    "VerticalRidge",
]

Vector = NDArray[np.float64]


class VerticalClassifier(ClassifierMixin, VerticalEstimator):  # type: ignore[misc]
    """Two classes; the list is public."""

    classes: Any
    classes_: NDArray[Any]

    def _targets(self, y: NDArray[Any]) -> tuple[Vector, dict[str, Any]]:
        known = self._known_classes(y)
        return _signs(y, known), {"classes_": known}

    def _known_classes(self, y: NDArray[Any]) -> NDArray[Any]:
        if self.classes is None:
            if math.isfinite(self.epsilon or math.inf) and not self.labels_public:
                raise ParameterError(
                    "classes is missing: a private training needs the public list of the two classes, because one that "
                    "is read from y would tell about y. Give classes=[negative, positive], or labels_public=True."
                )
            try:
                known = np.unique(y)
            except TypeError:
                raise DataError("y must hold labels of one type, numbers or text, and none may be missing.") from None
        else:
            if not isinstance(self.classes, (Sequence, np.ndarray)) or isinstance(self.classes, (str, bytes)):
                raise ParameterError(f"classes must be a list, [negative, positive]; got {self.classes!r}.")
            try:
                known = np.atleast_1d(np.asarray(self.classes))
            except ValueError:
                raise ParameterError(f"classes must be a list, [negative, positive]; got {self.classes!r}.") from None
        if known.shape != (2,) or not known[0] != known[1] or any(label != label for label in known):
            raise ParameterError(f"there must be two classes, and they must differ; got {list(known)!r}.")
        return known

    def _assumptions(self) -> tuple[str, ...]:
        return (f"the classes: {', '.join(str(name) for name in self.classes_)}",)

    def predict(self, parties: Any) -> NDArray[Any]:
        """Predict the class of each row; see `decision_function`."""
        positive = self.decision_function(parties) > 0.0
        predicted: NDArray[Any] = self.classes_[positive.astype(int)]
        return predicted

    def _weigh(self, scores: NDArray[np.float64], y: NDArray[Any]) -> tuple[Vector, float]:
        signs = _signs(y, self.classes_)
        if len(set(signs)) < 2:
            raise DataError("y holds one class only: take people of both.")
        scale = np.abs(scores).max(axis=0, initial=1e-300)
        model = LogisticRegression(C=1.0, max_iter=1000).fit(scores / scale, signs)
        return model.coef_[0] / scale, float(model.intercept_[0])

    def score(self, parties: Any, y: Any) -> float:
        """Return the accuracy on the rows of ``parties``."""
        return float(accuracy_score(np.asarray(y), self.predict(parties)))


def _signs(y: NDArray[Any], classes: NDArray[Any]) -> Vector:
    """Return -1 for the first class and +1 for the second; anything else is refused."""
    signs = np.where(y == classes[1], 1.0, np.where(y == classes[0], -1.0, 0.0))
    bad = np.flatnonzero(signs == 0.0)
    if bad.size:
        raise DataError(
            f"y holds the label {y[bad[0]]!r} (row {int(bad[0])}, {bad.size} row(s) in all), which is not in "
            f"classes={list(classes)!r}."
        )
    return signs


class VerticalLogisticModel(VerticalClassifier):
    """Scores are logarithms of odds."""

    def _make_loss(self) -> Loss:
        return Logistic()

    def predict_proba(self, parties: Any) -> NDArray[np.float64]:
        """Return the probability of each class, of shape (n_rows, 2); see `decision_function`."""
        positive = expit(self.decision_function(parties))
        return np.column_stack([1.0 - positive, positive])

    def _measures(self, y: NDArray[Any], scores: Vector) -> dict[str, float]:
        signs = _signs(y, self.classes_)
        return {
            "accuracy": float(np.mean(np.where(scores > 0.0, 1.0, -1.0) == signs)),
            "log loss": float(np.logaddexp(0.0, -signs * scores).mean()),
        }


class VerticalLogisticRegression(VerticalLogisticModel):
    r"""Logistic regression over columns that several parties hold of the same people.

    Minimises :math:`\frac1n \sum_i \log(1 + e^{-y_i (\sum_m x_{i,m}^\top w_m + b)}) + \alpha R(w)`, without noise by
    block-preconditioned L-BFGS or ADMM sharing [1]_, privately by one of the mechanisms below. The model stays split:
    each party keeps its own coefficients.

    Parameters
    ----------
    epsilon : float, > 0
        Privacy budget for one person's rows at all parties together; ``inf`` trains without noise.
    delta : float, in (0, 1)
        Choose it well below 1 / n_samples.
    mechanism : {"local-models", "noisy-features", "noisy-admm", "paper"}, default "local-models"
        With a finite epsilon. ``"local-models"``: the labels by randomised response once, then a private model at each
        other party. ``"noisy-features"``: the other parties' columns plus noise, once. ``"noisy-admm"``: clipped, noisy
        scores. ``"paper"``: the published noise [1]_, for reproduction; its receipt says epsilon = inf and why.
    mechanism_options : dict or None
        ``"local-models"``: ``label_share`` (of epsilon, .75), ``combination`` (.6), ``budget_shares`` (by party).
    labels_public : bool, default False
        The labels are no secret; the statement does not cover them then.
    label_holder : str or None
        Party that holds the labels. None takes the one made with ``y=...``, else the first.
    classes : [negative, positive] or None
        Public list of the classes; required for a private training unless the labels are public.
    alpha : float, > 0, or "auto", default "auto"
        Strength of the penalty. ``"auto"`` is 1 / n_samples, scikit-learn's C = 1.
    l1_ratio : float, in [0, 1], default 0
        Without noise: R(w) = (1 - l1_ratio) / 2 |w|^2 + l1_ratio |w|_1.
    coef_bounds : (low, high) or None
        Without noise: bounds of every coefficient, low <= 0 <= high.
    fit_intercept : bool, default True
        A free intercept. Without noise it is the sum of one at each party, which converges faster; with noise the label
        holder keeps it.
    solver : {"auto", "lbfgs", "admm"}, default "auto"
        Without noise. ``"auto"``: L-BFGS where loss and penalty are smooth, else ADMM.
    solver_options : dict or None
        ``memory`` and ``precondition`` for L-BFGS; ``admm_form``, ``admm_penalty`` and ``relaxation`` for ADMM.
    max_iter : int, default 200
        Rounds at most, without noise.
    tol : float, default 1e-6
        Without noise: see `sottovoce.vertical.protocols.exact.lbfgs.lbfgs` and
        `sottovoce.vertical.protocols.exact.admm.admm`.
    random_state : None, int or numpy generator
        None is the private choice. A seed makes a run within one process repeatable, and not private.
    ledger : None, str or Ledger, default None
        The label holder's privacy budget on disk, which `fit` charges before anything is sent (`sottovoce.Ledger`, or
        its address). Its data set must have the adjacency ``"replace-one"``: one person's rows at all parties.
    dataset : str or None, default None
        Name of the data set in that ledger.
    accept_delta : float or None, default None
        The same number as ``delta``, said again, where that is 1 / sqrt(n) or more; it is refused otherwise.

    Attributes
    ----------
    guarantee_ : Guarantee
        The receipt for one person's rows at all parties.
    party_guarantees_ : dict
        For each party, what it gives away by itself; the label holder's is about the label.
    parts_ : dict
        Each party's `Part` of the model, where the parties live in this process.
    history_ : History or None
        Objective, stopping measure and bytes by round, without noise.
    n_rounds_ : int
    uplink_bytes_, downlink_bytes_ : int
        All that crossed in `fit`.
    classes_ : ndarray of shape (2,)
    plan_ : VerticalPlan
    charge_ : Charge or None
        Entry of the ledger about this fit.

    References
    ----------
    .. [1] Hu, Liu, Kong, Niu (2019). Learning Privately over Distributed Features: An ADMM Sharing Approach.
       arXiv:1907.07735.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import VerticalLogisticRegression, split_columns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> y = np.where(X.sum(axis=1) > 0, 1, 0)
    >>> parties = split_columns(X, [3, 2])
    >>> model = VerticalLogisticRegression(epsilon=np.inf).fit(parties, y)
    >>> model.score(parties, y) > 0.98
    True
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        mechanism: str = "local-models",
        mechanism_options: Mapping[str, Any] | None = None,
        labels_public: bool = False,
        label_holder: str | None = None,
        classes: Any = None,
        alpha: float | str = "auto",
        l1_ratio: float = 0.0,
        coef_bounds: tuple[float, float] | None = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        solver_options: Mapping[str, Any] | None = None,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        accept_delta: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.mechanism_options = mechanism_options
        self.labels_public = labels_public
        self.label_holder = label_holder
        self.classes = classes
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.coef_bounds = coef_bounds
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.solver_options = solver_options
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset
        self.accept_delta = accept_delta


class VerticalLinearSVC(VerticalClassifier):
    r"""Linear SVM over columns that several parties hold of the same people.

    Minimises :math:`\frac1n \sum_i h(y_i (\sum_m x_{i,m}^\top w_m + b)) + \alpha R(w)` with the hinge loss h, its
    corner rounded over a width of ``smoothing``. With ``mechanism="local-models"`` the other parties fit the labels
    by least squares, whose scores are on the same scale as margins.

    Parameters
    ----------
    smoothing : float, >= 0, default 0.5
        0 is the plain hinge loss (ADMM only).
    epsilon, delta, mechanism, mechanism_options, labels_public, label_holder, classes, alpha, l1_ratio, coef_bounds, \
fit_intercept, solver, solver_options, max_iter, tol, random_state, ledger, dataset,
    accept_delta
        As for `VerticalLogisticRegression`, whose attributes it has too.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import VerticalLinearSVC, split_columns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> y = np.where(X.sum(axis=1) > 0, 1, 0)
    >>> parties = split_columns(X, [3, 2])
    >>> VerticalLinearSVC(epsilon=np.inf).fit(parties, y).score(parties, y) > 0.98
    True
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        smoothing: float = 0.5,
        mechanism: str = "local-models",
        mechanism_options: Mapping[str, Any] | None = None,
        labels_public: bool = False,
        label_holder: str | None = None,
        classes: Any = None,
        alpha: float | str = "auto",
        l1_ratio: float = 0.0,
        coef_bounds: tuple[float, float] | None = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        solver_options: Mapping[str, Any] | None = None,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        accept_delta: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.smoothing = smoothing
        self.mechanism = mechanism
        self.mechanism_options = mechanism_options
        self.labels_public = labels_public
        self.label_holder = label_holder
        self.classes = classes
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.coef_bounds = coef_bounds
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.solver_options = solver_options
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset
        self.accept_delta = accept_delta

    def _make_loss(self) -> Loss:
        smoothing = number("smoothing", self.smoothing, at_least=0.0)
        if smoothing == 0.0 and math.isfinite(self.epsilon or math.inf):
            raise ParameterError(
                "smoothing must be above 0 for a private training, whose exact local model needs a smooth loss; got 0."
            )
        return SmoothedHinge(smoothing) if smoothing > 0.0 else Hinge()

    def _measures(self, y: NDArray[Any], scores: Vector) -> dict[str, float]:
        signs = _signs(y, self.classes_)
        return {
            "accuracy": float(np.mean(np.where(scores > 0.0, 1.0, -1.0) == signs)),
            "hinge loss": float(np.maximum(0.0, 1.0 - signs * scores).mean()),
        }


class VerticalRegressor(RegressorMixin, VerticalEstimator):  # type: ignore[misc]
    """Numeric labels within public bounds; squared loss."""

    label_bounds: tuple[float, float] | None

    def _make_loss(self) -> Loss:
        return Squared()

    def _label_bounds(self) -> tuple[float, float] | None:
        if self.label_bounds is None and not math.isfinite(self.epsilon or math.inf):
            return None
        remedy = "They are public; never compute them from the data."
        return bounds("label_bounds", self.label_bounds, remedy=remedy)

    def _targets(self, y: NDArray[Any]) -> tuple[Vector, dict[str, Any]]:
        try:
            numbers = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError("y must hold numbers.") from None
        bad = np.flatnonzero(~np.isfinite(numbers))
        if bad.size:
            raise DataError(f"y must hold finite numbers; row {int(bad[0])} does not ({bad.size} row(s) in all).")
        limits = self._label_bounds()
        return (numbers if limits is None else np.clip(numbers, *limits)), {}

    def _assumptions(self) -> tuple[str, ...]:
        return () if self.label_bounds is None else (f"label_bounds = {tuple(encode(self.label_bounds))}",)

    def predict(self, parties: Any) -> Vector:
        """Predict the label of each row; see `decision_function`."""
        return self.decision_function(parties)

    def _weigh(self, scores: NDArray[np.float64], y: NDArray[Any]) -> tuple[Vector, float]:
        model = LinearRegression().fit(scores, self._targets(y)[0])
        return model.coef_, float(model.intercept_)

    def score(self, parties: Any, y: Any) -> float:
        """Return the coefficient of determination R^2 on the rows of ``parties``."""
        return float(r2_score(np.asarray(y, dtype=np.float64), self.predict(parties)))

    def _measures(self, y: NDArray[Any], scores: Vector) -> dict[str, float]:
        numbers = np.asarray(y, dtype=np.float64)
        return {"mean squared error": float(np.mean((numbers - scores) ** 2)), "R^2": float(r2_score(numbers, scores))}


class VerticalRidge(VerticalRegressor):
    r"""Ridge regression over columns that several parties hold of the same people.

    Minimises :math:`\frac1{2n} \sum_i (y_i - \sum_m x_{i,m}^\top w_m - b)^2 + \alpha R(w)`.

    Parameters
    ----------
    label_bounds : (low, high) or None
        Public bounds of the labels; required for a private training. Labels beyond are moved to them.
    epsilon, delta, mechanism, mechanism_options, labels_public, label_holder, alpha, l1_ratio, coef_bounds, \
fit_intercept, solver, solver_options, max_iter, tol, random_state, ledger, dataset,
    accept_delta
        As for `VerticalLogisticRegression`, whose attributes, ``classes_`` aside, it has too.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import VerticalRidge, split_columns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> parties = split_columns(X, [3, 2])
    >>> VerticalRidge(epsilon=np.inf).fit(parties, X.sum(axis=1)).score(parties, X.sum(axis=1)) > 0.99
    True
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        label_bounds: tuple[float, float] | None = None,
        mechanism: str = "local-models",
        mechanism_options: Mapping[str, Any] | None = None,
        labels_public: bool = False,
        label_holder: str | None = None,
        alpha: float | str = "auto",
        l1_ratio: float = 0.0,
        coef_bounds: tuple[float, float] | None = None,
        fit_intercept: bool = True,
        solver: str = "auto",
        solver_options: Mapping[str, Any] | None = None,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        accept_delta: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.label_bounds = label_bounds
        self.mechanism = mechanism
        self.mechanism_options = mechanism_options
        self.labels_public = labels_public
        self.label_holder = label_holder
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.coef_bounds = coef_bounds
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.solver_options = solver_options
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset
        self.accept_delta = accept_delta
