"""Lasso and sparse logistic regression over columns at several parties, by Frank-Wolfe on the l1 ball."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sottovoce._validation import choice, magnitude, privacy_budget
from sottovoce.exceptions import DataError, ParameterError
from sottovoce.privacy.large_delta import refuse_large_delta
from sottovoce.published.vertical_frank_wolfe.plan import PublishedBallPlan
from sottovoce.vertical.coordinator.parties import Parties
from sottovoce.vertical.coordinator.plan import PublicFacts, VerticalPlan, VerticalSolution, read_public_facts
from sottovoce.vertical.estimators.base import VerticalEstimator, _as_parties, _check_length, _labels, _owned
from sottovoce.vertical.estimators.comparison import Comparison
from sottovoce.vertical.estimators.dense import VerticalLogisticModel, VerticalRegressor
from sottovoce.vertical.protocols.frank_wolfe.ball_plan import BallPlan
from sottovoce.vertical.protocols.frank_wolfe.exact import AGGREGATIONS, ExactBallPlan
from sottovoce.vertical.protocols.frank_wolfe.joint import JointBallPlan
from sottovoce.vertical.protocols.frank_wolfe.local import LocalBallPlan

__all__ = ["MECHANISMS", "VerticalLasso", "VerticalSparseLogisticRegression"]

Vector = NDArray[np.float64]

MECHANISMS: Final = ("frank-wolfe", "paper")
_SHARING: Final = ("sharing_share", "sketch", "sketch_rows", "sketch_seed")


class _BallEstimator(VerticalEstimator):
    """Base of both: public facts to plan, solution to coefficients."""

    aggregation: str
    radius: float | None
    radius_shares: Mapping[str, float] | None
    n_steps: int | None
    label_share: float
    sharing_options: Mapping[str, Any] | None

    coef_: Vector
    intercept_: float
    n_nonzero_: int

    def _residual_bound(self) -> float | None:
        return None

    def _plan(self, parties: Parties, label_holder: str) -> VerticalPlan:
        epsilon, delta = privacy_budget(self.epsilon, self.delta)
        choice("aggregation", self.aggregation, AGGREGATIONS)
        choice("mechanism", self.mechanism, MECHANISMS)
        for name in ("labels_public", "fit_intercept"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ParameterError(f"{name} must be True or False; got {getattr(self, name)!r}.")
        radius = magnitude(
            "radius", self.radius,
            remedy="It bounds the sum of the absolute coefficients: small is sparse, large fits closely. Choose it "
            "from public knowledge.",
        )  # fmt: skip
        published, sharing = self._published(), self._sharing()
        descriptions = read_public_facts(parties)
        n = next(iter(descriptions.values())).n_rows
        for name, description in descriptions.items():
            if description.n_rows != n:
                raise DataError(
                    f"party {name!r} holds {description.n_rows} rows and {parties.names[0]!r} holds {n}: align them "
                    "first, with sottovoce.vertical.align."
                )
        if math.isfinite(epsilon):
            refuse_large_delta(delta, n, self.accept_delta)
        common: dict[str, Any] = {
            "facts": PublicFacts(
                n_samples=n, descriptions=descriptions, label_holder=label_holder, label_bounds=self._label_bounds()
            ),
            "loss": self._make_loss(),
            "fit_intercept": bool(self.fit_intercept),
            "epsilon": epsilon,
            "delta": delta,
            "labels_public": bool(self.labels_public),
            "radius": radius,
            "radius_shares": self.radius_shares,
        }
        if math.isinf(epsilon):
            return ExactBallPlan(**common, aggregation=self.aggregation, max_iter=self.max_iter, tol=self.tol)
        common |= {
            "n_steps_given": self.n_steps,
            "residual_bound": self._residual_bound(),
            "label_share": self.label_share,
        }
        if self.mechanism == "paper":
            return PublishedBallPlan(**common, **published)
        if self.aggregation == "local":
            return LocalBallPlan(**common)
        return JointBallPlan(**common, aggregation=self.aggregation, **sharing)

    def _sharing(self) -> dict[str, Any]:
        given = self.sharing_options
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            raise ParameterError(f"sharing_options must be a dict or None; got {given!r}.")
        unknown = sorted(set(given) - set(_SHARING))
        if unknown:
            raise ParameterError(f"sharing_options has no entry {unknown[0]!r}; there are {', '.join(_SHARING)}.")
        if given and (self.aggregation == "local" or math.isinf(self.epsilon or 0.0)):
            raise ParameterError(
                "sharing_options are for private columns that are shared: aggregation='product' or 'global', with a "
                "finite epsilon."
            )
        return dict(given)

    def _published(self) -> dict[str, Any]:
        given = self.mechanism_options
        if self.mechanism == "paper":
            if math.isinf(self.epsilon or 0.0):
                raise ParameterError("mechanism='paper' is about noise: give a finite epsilon, or leave it out.")
            if self.aggregation != "local" or self.radius_shares is not None or self.sharing_options is not None:
                raise ParameterError(
                    "aggregation, radius_shares and sharing_options are for mechanism='frank-wolfe': the published "
                    "algorithm adds up the vertices of all parties. Leave them out."
                )
        if given is None:
            return {}
        if self.mechanism != "paper":
            raise ParameterError("mechanism_options are for mechanism='paper'; there are none for 'frank-wolfe'.")
        if not isinstance(given, Mapping):
            raise ParameterError(f"mechanism_options must be a dict or None; got {given!r}.")
        unknown = sorted(set(given) - set(PublishedBallPlan.options))
        if unknown:
            raise ParameterError(
                f"mechanism_options has no entry {unknown[0]!r}; there are {', '.join(PublishedBallPlan.options)}."
            )
        return dict(given)

    def _take(self, solution: VerticalSolution) -> None:
        assert solution.weights is not None
        assert isinstance(self.plan_, BallPlan)
        parts = [solution.weights[name] for name in self.plan_.facts.names]
        self.coef_ = np.concatenate([coefficients for coefficients, _ in parts])
        self.intercept_ = self.plan_.middle + math.fsum(intercept for _, intercept in parts)
        self.n_nonzero_ = int(np.count_nonzero(self.coef_))

    def local_decision_function(self, parties: Any) -> Vector:
        """Not offered: this training makes no exact model of the label holder's own columns.

        Raises
        ------
        ParameterError
            Always.
        """
        raise ParameterError(
            f"{type(self).__name__} trains no model of the label holder alone; fit one with a list of that party only."
        )

    def compare(self, parties: Any, y: Any = None, *, local: VerticalEstimator | None = None) -> Comparison:
        """Return how good a model of the label holder's own columns and the joint one are on the same people.

        Parameters
        ----------
        parties : Parties or sequence of Party
        y : array-like of shape (n_rows,) or None
            As for `fit`.
        local : VerticalEstimator or None
            Fitted on a list of the label holder alone, say with ``epsilon=inf``: it is the label holder's own.

        Returns
        -------
        Comparison
            For the label holder's eyes: it is computed from its labels.

        Raises
        ------
        ParameterError
            If ``local`` is missing, or was fitted on other parties.
        """
        check_is_fitted(self)
        holder = self.plan_.facts.label_holder
        if local is None:
            self.local_decision_function(parties)
        check_is_fitted(local)
        assert local is not None
        if local.plan_.facts.names != (holder,):
            raise ParameterError(
                f"local must be fitted on a list of the label holder {holder!r} alone; it was on "
                f"{list(local.plan_.facts.names)!r}."
            )
        ready = _as_parties(parties)
        labels = _labels(ready, holder, y)
        joint = self.decision_function(ready)
        alone = local.decision_function([party for party in _owned(ready).values() if party.name == holder])
        _check_length(labels, len(joint))
        return Comparison(len(labels), self._measures(labels, alone), self._measures(labels, joint))


class VerticalLasso(VerticalRegressor, _BallEstimator):
    r"""Least squares with few coefficients, over columns that several parties hold of the same people.

    Minimises :math:`\frac1n \sum_i \frac12 (y_i - \sum_k x_{i,k}^\top w_k - b)^2` over
    :math:`\|w\|_1 + |b - m| / B \le` ``radius``, where m is the middle of ``label_bounds`` and B the label holder's
    ``data_bound``, by private Frank-Wolfe [1]_ [2]_. The noise grows with the logarithm of the number of columns only.
    The model is a function of what was released: it is public, and each party keeps its part too.

    Parameters
    ----------
    epsilon : float, > 0
        Privacy budget for one person's rows at all parties together; ``inf`` trains without noise.
    delta : float, in (0, 1)
        Choose it well below 1 / n_samples.
    aggregation : {"local", "product", "global"}, default "local"
        ``"local"``: K balls of a share of ``radius`` each, every party by itself; nothing crosses but some bytes of
        column numbers. ``"product"``: the same balls, all parties step in every round, and columns that are stepped
        along are shared with noise. ``"global"``: one ball; one party steps in every round. ``"local"`` is best for
        small budgets, ``"global"`` for large ones, many rows, and without noise.
    radius : float, in [1e-100, 1e100]
        Bound on the l1 norm of the coefficients, in the unit of y divided by that of the columns.
    radius_shares : dict or None
        By party, for ``"local"`` and ``"product"``; None for equal shares.
    label_bounds : (low, high) or None
        Public bounds of the labels; required for a private training. Labels beyond are moved to them.
    residual_bound : float or None, default None
        Public bound on a residual, in the unit of y; larger ones are clipped. None is half of the width of
        ``label_bounds``. Where most residuals are known to be far smaller, a smaller bound means as much less noise.
    labels_public : bool, default False
        The labels are no secret; the statement does not cover them then. Else they are released once by randomised
        response.
    label_share : float, in (0, 1), default 0.5
        Share of epsilon for secret labels.
    label_holder : str or None
        Party that holds the labels. None takes the one made with ``y=...``, else the first.
    n_steps : int or None, default None
        Steps of each party (rounds); None follows a measured rule from public facts.
    sharing_options : dict or None
        For ``"product"`` and ``"global"``: ``sharing_share`` (of the squared budget, for columns; .85), ``sketch``
        ("sparse-sign" or "gaussian": compress shared columns by a public map), ``sketch_rows``, ``sketch_seed``.
    mechanism : {"frank-wolfe", "paper"}, default "frank-wolfe"
        ``"paper"``: Algorithm 2 of [1]_ with the printed noise, for reproduction. Its claim does not hold: the receipt
        says which epsilon does, in the hundreds and more. It needs ``labels_public=True``.
    mechanism_options : dict or None
        For ``"paper"``: ``jl_parameter`` (.3), ``sampled_columns`` (all), ``sketch_rows``, ``sketch_seed``.
    fit_intercept : bool, default True
        A column of the value B at the label holder. Its weight counts in the norm.
    max_iter : int, default 1000
        Rounds at most, without noise.
    tol : float, default 1e-3
        Without noise: duality gap at which to stop, relative to the mean loss of the model without columns.
    random_state : None, int or numpy generator
        None is the private choice. A seed makes a run within one process repeatable, and not private.
    ledger, dataset, accept_delta
        As for `sottovoce.vertical.VerticalLogisticRegression`.

    Attributes
    ----------
    coef_ : ndarray
        Of all parties' columns, in the order of the parties.
    intercept_ : float
    n_nonzero_ : int
        Coefficients that are not zero.
    guarantee_ : Guarantee
        The receipt for one person's rows at all parties.
    party_guarantees_ : dict
        For each party, what it gives away by itself.
    parts_ : dict
        Each party's `Part` of the model, where the parties live in this process.
    history_ : History or None
        Objective, duality gap and bytes by round, without noise.
    n_rounds_ : int
    uplink_bytes_, downlink_bytes_ : int
        All that crossed in `fit`.
    plan_ : VerticalPlan

    References
    ----------
    .. [1] Lou, Cheung (2018). Uplink Communication Efficient Differentially Private Sparse Optimization With
       Feature-Wise Distributed Data. AAAI 2018; Algorithm 2, with the changes and the proof in
       ``docs/privacy/vertical_frank_wolfe.md``.
    .. [2] Talwar, Thakurta, Zhang (2015). Nearly Optimal Private LASSO. NIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import VerticalLasso, split_columns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 300))
    >>> y = np.clip(X[:, 7] - X[:, 242], -1, 1)
    >>> parties = split_columns(X, {"clinic": range(150), "bank": range(150, 300)}, data_bound={"clinic": 1, "bank": 1})
    >>> model = VerticalLasso(
    ...     epsilon=1.0, delta=1e-6, label_bounds=(-1, 1), radius=2.0, labels_public=True, random_state=0
    ... ).fit(parties, y)
    >>> np.flatnonzero(np.abs(model.coef_) > 0.3)
    array([  7, 242])
    >>> model.uplink_bytes_ < 200
    True
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        aggregation: str = "local",
        radius: float | None = None,
        radius_shares: Mapping[str, float] | None = None,
        label_bounds: tuple[float, float] | None = None,
        residual_bound: float | None = None,
        labels_public: bool = False,
        label_share: float = 0.5,
        label_holder: str | None = None,
        n_steps: int | None = None,
        sharing_options: Mapping[str, Any] | None = None,
        mechanism: str = "frank-wolfe",
        mechanism_options: Mapping[str, Any] | None = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-3,
        random_state: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        accept_delta: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.aggregation = aggregation
        self.radius = radius
        self.radius_shares = radius_shares
        self.label_bounds = label_bounds
        self.residual_bound = residual_bound
        self.labels_public = labels_public
        self.label_share = label_share
        self.label_holder = label_holder
        self.n_steps = n_steps
        self.sharing_options = sharing_options
        self.mechanism = mechanism
        self.mechanism_options = mechanism_options
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset
        self.accept_delta = accept_delta

    def _residual_bound(self) -> float | None:
        return self.residual_bound


class VerticalSparseLogisticRegression(VerticalLogisticModel, _BallEstimator):
    r"""Logistic regression with few coefficients, over columns that several parties hold of the same people.

    Minimises :math:`\frac1n \sum_i \log(1 + e^{-y_i (\sum_k x_{i,k}^\top w_k + b)})` over
    :math:`\|w\|_1 + |b| / B \le` ``radius``, as `VerticalLasso` does. Slopes need the prediction of every record, so
    shared columns cannot be compressed: ``sketch`` is refused.

    Parameters
    ----------
    classes : [negative, positive] or None
        Public list of the classes; required for a private training unless the labels are public.
    epsilon, delta, aggregation, radius, radius_shares, labels_public, label_share, label_holder, n_steps, \
sharing_options, mechanism, mechanism_options, fit_intercept, max_iter, tol, random_state, ledger, dataset,
    accept_delta
        As for `VerticalLasso`, whose attributes it has too.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce.vertical import VerticalSparseLogisticRegression, split_columns
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 300))
    >>> y = np.where(X[:, 7] - X[:, 242] > 0, 1, 0)
    >>> parties = split_columns(X, {"clinic": range(150), "bank": range(150, 300)}, data_bound={"clinic": 1, "bank": 1})
    >>> model = VerticalSparseLogisticRegression(
    ...     epsilon=1.0, delta=1e-6, classes=[0, 1], radius=5.0, labels_public=True, random_state=0
    ... ).fit(parties, y)
    >>> model.score(parties, y) > 0.9
    True
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        aggregation: str = "local",
        radius: float | None = None,
        radius_shares: Mapping[str, float] | None = None,
        classes: Any = None,
        labels_public: bool = False,
        label_share: float = 0.5,
        label_holder: str | None = None,
        n_steps: int | None = None,
        sharing_options: Mapping[str, Any] | None = None,
        mechanism: str = "frank-wolfe",
        mechanism_options: Mapping[str, Any] | None = None,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-3,
        random_state: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        accept_delta: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.aggregation = aggregation
        self.radius = radius
        self.radius_shares = radius_shares
        self.classes = classes
        self.labels_public = labels_public
        self.label_share = label_share
        self.label_holder = label_holder
        self.n_steps = n_steps
        self.sharing_options = sharing_options
        self.mechanism = mechanism
        self.mechanism_options = mechanism_options
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset
        self.accept_delta = accept_delta
