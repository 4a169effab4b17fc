"""Private ridge regression."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sottovoce._plain_data import encode
from sottovoce._validation import bounds, number
from sottovoce._whole_fit import whole_fit
from sottovoce.estimators._base import DPLinearEstimator
from sottovoce.estimators._labels import bounded_labels
from sottovoce.exceptions import ParameterError
from sottovoce.losses import Loss, Squared

__all__ = ["DPRidge"]


class DPRidge(RegressorMixin, DPLinearEstimator):  # type: ignore[misc]
    r"""Ridge regression with differential privacy.

    Minimises, over rows divided by ``data_norm`` and labels y centred at a private median (without privacy: at the
    middle of ``label_bounds``),
    :math:`\frac1n \sum_i \frac12 (y_i - x_i^\top w - b)^2 + \frac\alpha2 (|w|^2 + b^2 / s^2)` with s =
    ``intercept_scaling``, by accelerated full-batch DP-SCD [1]_. Nothing has to be tuned.

    Parameters
    ----------
    epsilon : float, > 0
        Privacy budget; ``inf`` trains without noise and says so in the receipt.
    delta : float, in (0, 1)
        Probability with which the guarantee may fail; choose it well below 1 / n_samples.
    data_norm : float, in [1e-50, 1e50]
        Public bound on the Euclidean norm of a row, in the unit of X. Longer rows are shortened to it in training.
    label_bounds : (float, float)
        Public bounds on the labels, in the unit of y. Labels outside are clipped to them in training.
    alpha : float in [1e-50, 1e50] or "auto", default 1e-4
        Strength of the L2 penalty for rows in units of ``data_norm``. ``"auto"`` follows the
        public number of rows: 1 / (2 n), at most 1e-3 and, with a finite epsilon, at least 2e-5.
    fit_intercept : bool, default True
        Add a constant column. Its weight is penalised like the others, as in liblinear.
    intercept_scaling : float, in [1e-50, 1e50], default 0.2
        Value of that column in units of ``data_norm``. Larger ones learn a large intercept faster and cost noise in
        every weight.
    solver : str, default "auto"
        ``"scd"``: accelerated full-batch DP-SCD (what ``"auto"`` takes); ``"minibatch-scd"``: Poisson mini-batches with
        secret dual variables; ``"adassp"``: noisy X'X and X'y with an adaptive ridge [2]_, for `confidence_intervals`.
        For comparison: ``"sgd"``: DP-SGD; ``"seq-scd"`` and ``"primal-scd"``: sequential and primal DP-SCD;
        ``"paper-scd"``: the published Algorithm 1, whose receipt states an epsilon that is larger than the one asked
        for. Where each wins: ``docs/guide/solvers.md``.
    solver_options : dict or None
        Public parameters of the solver: ``n_passes`` for ``"scd"``; ``batch_size`` and ``epochs`` for
        ``"minibatch-scd"``, these and ``clipping_norm`` for ``"paper-scd"`` and ``"seq-scd"``, these and
        ``learning_rate`` for ``"sgd"``; ``block_size``, ``epochs`` and ``clipping_norm`` for ``"primal-scd"``;
        ``clip_labels`` (False uses the whole of ``label_bounds``) for ``"adassp"``. None follows measured rules.
    adjacency : {"zero-out", "add-remove", "replace-one"}, default "zero-out"
        Which tables are neighbours; see `sottovoce.privacy.adjacency.Adjacency`.
    n_public : int or None
        Public stand-in for the number of rows; required for ``"add-remove"``, where n is secret.
    max_iter : int, default 10_000
        Cap on the epochs of a run with ``epsilon=inf``.
    tol : float, default 1e-7
        Relative duality gap at which a run with ``epsilon=inf`` stops.
    random_state : None, int or numpy generator
        None is the private choice. A seed makes the run repeatable, and not private against whoever knows it.
    verbose : int, default 0
        1 shows a progress bar on stderr.
    ledger : None, str or Ledger, default None
        Privacy budget on disk that `fit` charges before it reads the data (`sottovoce.Ledger`, or its address).
    dataset : str or None, default None
        Name of the data set in that ledger.
    accept_delta : float or None, default None
        The same number as ``delta``, said again, where that is 1 / sqrt(n) or more; it is refused otherwise.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    n_iter_ : int
        Passes over the data; follows from public facts and noisy releases only.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only when X has column names.
    guarantee_ : Guarantee
        The receipt.
    charge_ : Charge or None
        Entry of the ledger about this fit.
    least_squares_ : ndarray of shape (n_features + 1,) or (n_features,), or None
        Unpenalised coefficients, corrected for the noise, the intercept last (where there is one); zeros where the
        noise hides them. None for other solvers than ``"adassp"``.
    standard_errors_ : ndarray of the same shape, or None
        Their standard errors, for sampling and noise together; infinite where the noise hides the coefficients.

    Raises
    ------
    ParameterError
        From `fit`, before any work: a parameter is missing, out of range or does not fit another one.
    DataError
        From `fit`, before any noise is drawn: NaN or infinity in X or y.

    References
    ----------
    .. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Algorithm 1, with
           the
       changes and the proof in ``docs/privacy/dp_scd.md``.
    .. [2] Wang (2018). Revisiting differentially private linear regression: optimal and adaptive prediction &
       estimation in unbounded domain. UAI 2018; algorithm AdaSSP, with the changes and the proof in
       ``docs/privacy/sufficient_statistics.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce import DPRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 2))
    >>> y = np.clip(X @ [1.0, -0.5], -2, 2)
    >>> model = DPRidge(epsilon=1.0, delta=1e-6, data_norm=2**0.5, label_bounds=(-2, 2), random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    >>> model.guarantee_.epsilon
    1.0
    """

    least_squares_: NDArray[np.float64] | None
    standard_errors_: NDArray[np.float64] | None

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        data_norm: float | None = None,
        label_bounds: tuple[float, float] | None = None,
        alpha: float | str = 1e-4,
        fit_intercept: bool = True,
        intercept_scaling: float = 0.2,
        solver: str = "auto",
        solver_options: Any = None,
        adjacency: str = "zero-out",
        n_public: int | None = None,
        max_iter: int = 10_000,
        tol: float = 1e-7,
        random_state: Any = None,
        verbose: int = 0,
        ledger: Any = None,
        dataset: str | None = None,
        accept_delta: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.label_bounds = label_bounds
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.solver = solver
        self.solver_options = solver_options
        self.adjacency = adjacency
        self.n_public = n_public
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose
        self.ledger = ledger
        self.dataset = dataset
        self.accept_delta = accept_delta

    def _make_loss(self) -> Loss:
        return Squared()

    def _bounds(self) -> tuple[float, float]:
        return bounds(
            "label_bounds", self.label_bounds,
            remedy="They are public bounds on the labels; never compute them from the data.",
        )  # fmt: skip

    def _middle(self) -> float:
        low, high = self._bounds()
        return 0.5 * (low + high) if self.fit_intercept else 0.0

    def _label_bound(self) -> float:
        low, high = self._bounds()
        return max(high - self._middle(), self._middle() - low)

    def _assumptions(self) -> tuple[str, ...]:
        return (f"label_bounds = {tuple(encode(self.label_bounds))} (labels beyond were clipped to them)",)

    @whole_fit
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X and y.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame or ParquetTable of shape (n_samples, n_features)
            Private. float32 and float64 are used as they are, without a copy.
        y : array of shape (n_samples,)
            Private. Numbers; those beyond ``label_bounds`` are clipped to them. May be left out for a ParquetTable that
            names its target.

        Returns
        -------
        self
        """
        streams = self._check_parameters()
        with self._charged(X, y, streams) as charge:
            X, y = self._read_rows(X, y)
            targets = bounded_labels(y, self._bounds(), type(self).__name__) - self._middle()
            plan = self._plan(X.shape[0], X.shape[1], 1)
            solution = self._fit_models(X, [targets], plan, streams, charge)
        location = solution.offset + self._middle()
        self.coef_ = self.coef_[0]
        self.intercept_ = float(self.intercept_[0]) + location
        self.least_squares_ = self.standard_errors_ = None
        if solution.least_squares is not None:
            both = np.stack([solution.least_squares.estimates, solution.least_squares.standard_errors])
            coef, intercept = self._unscaled(plan, both)
            intercept = intercept + np.array([location, 0.0])
            self.least_squares_, self.standard_errors_ = (
                np.column_stack([coef, intercept]) if self.fit_intercept else coef
            )
        self._tie_receipt()
        return self

    def confidence_intervals(self, level: float = 0.95) -> NDArray[np.float64]:
        r"""Return confidence intervals for the coefficients of the linear model, noise included.

        The target is beta and b of y = x'beta + b + e with E[e | x] = 0 and equal variances: the unpenalised
        coefficients of the population, for rows that are not shortened and labels that are not clipped. The centre is
        therefore `least_squares_`, not the penalised `coef_`. With M the inverse of the released X'X, s^2 the residual
        variance and N the covariance of the noise in X'y - X'X beta, all for scaled rows, the interval is

        .. math:: \hat\beta_j \pm z_{(1 + level)/2} \sqrt{[M (s^2 X'X + N) M]_{jj}}.

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
            If the model was trained by another solver than ``"adassp"``; under add-remove adjacency (n is secret) also
            without an intercept or with clipped labels; or if ``level`` is out of range.
        """
        check_is_fitted(self)
        level = number("level", level, above=0.0, below=1.0)
        if self.least_squares_ is None or self.standard_errors_ is None:
            raise ParameterError(
                "confidence intervals need the released second moments and the number of rows; this model has solver "
                f"{self.guarantee_.parameters['solver']!r} and adjacency {self.adjacency!r}. Fit it with "
                "solver='adassp' and a finite epsilon, and for 'add-remove' also with an intercept and "
                "solver_options={'clip_labels': False}."
            )
        half = float(ndtri(0.5 + 0.5 * level)) * self.standard_errors_
        return np.column_stack([self.least_squares_ - half, self.least_squares_ + half])

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict the label of each row.

        Parameters
        ----------
        X : array, memory map, sparse matrix, data frame or ParquetTable of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._decision(X)[:, 0]
