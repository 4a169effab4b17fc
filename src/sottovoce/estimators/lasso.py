"""Private lasso."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from sottovoce._plain_data import encode
from sottovoce._validation import bounds
from sottovoce._whole_fit import whole_fit
from sottovoce.estimators._l1_ball import DPBallEstimator
from sottovoce.estimators._labels import bounded_labels
from sottovoce.losses import Loss, Squared

__all__ = ["DPLasso"]


class DPLasso(RegressorMixin, DPBallEstimator):  # type: ignore[misc]
    r"""Least squares with few coefficients, with differential privacy.

    Minimises :math:`\frac1n \sum_i \frac12 (y_i - x_i^\top w - b)^2` over
    :math:`\|w\|_1 + |b - m| / B \le` ``radius``, where B = ``data_bound`` and m is the middle of ``label_bounds``, by
    private Frank-Wolfe [1]_. The noise grows with the logarithm of the number of columns only, so there may be many
    more columns than rows. At most ``n_iter_`` coefficients are not zero.

    Parameters
    ----------
    epsilon : float, > 0
        Privacy budget; ``inf`` trains without noise, by projected gradients, and says so in the receipt.
    delta : float, in (0, 1)
        Probability with which the guarantee may fail; choose it well below 1 / n_samples.
    data_bound : float, in [1e-50, 1e50]
        Public bound on the absolute value of every entry, in the unit of X. Larger entries are clipped to it in
        training. Columns of very different units should be scaled by public factors first.
    label_bounds : (float, float)
        Public bounds on the labels, in the unit of y. Labels outside are clipped to them in training.
    radius : float, in [1e-50, 1e50]
        Bound on the l1 norm of the coefficients, in the unit of y divided by that of X.
    n_steps : int or None, default None
        Number of steps; more cost more noise each. None follows a measured rule from public facts.
    fit_intercept : bool, default True
        Add a column of the value ``data_bound``. Its weight counts in the norm.
    adjacency : {"zero-out", "add-remove", "replace-one"}, default "zero-out"
        Which tables are neighbours; see `sottovoce.privacy.adjacency.Adjacency`.
    n_public : int or None
        Public stand-in for the number of rows; required for ``"add-remove"``, where n is secret.
    max_iter : int, default 10_000
        Cap on the steps of a run with ``epsilon=inf``.
    tol : float, default 1e-6
        Relative Frank-Wolfe gap at which a run with ``epsilon=inf`` stops.
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
        Steps; follows from public facts.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only when X has column names.
    guarantee_ : Guarantee
        The receipt.
    charge_ : Charge or None
        Entry of the ledger about this fit.

    Raises
    ------
    ParameterError
        From `fit`, before any work: a parameter is missing, out of range or does not fit another one.
    DataError
        From `fit`, before any noise is drawn: NaN or infinity in X or y.

    Notes
    -----
    Residuals are clipped to half of the width of ``label_bounds`` (without an intercept, to the largest label in size).
    Which columns were taken is released and covered by the guarantee; that a column was taken is no proof that it
    matters. A sparse X is trained by steps that cost far less than a pass over it
    (`sottovoce.central.fast_frank_wolfe`).

    References
    ----------
    .. [1] Talwar, Thakurta, Zhang (2015). Nearly Optimal Private LASSO. NIPS 2015; Algorithm 2, with the changes and
       the proof in ``docs/privacy/frank_wolfe.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce import DPLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 300))
    >>> y = np.clip(X[:, 7] - X[:, 42], -1, 1)
    >>> model = DPLasso(epsilon=1.0, delta=1e-6, data_bound=1.0, label_bounds=(-1, 1), radius=2.0, random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    >>> np.flatnonzero(np.abs(model.coef_) > 0.3)
    array([ 7, 42])
    >>> model.guarantee_.epsilon
    1.0
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        data_bound: float | None = None,
        label_bounds: tuple[float, float] | None = None,
        radius: float | None = None,
        n_steps: int | None = None,
        fit_intercept: bool = True,
        adjacency: str = "zero-out",
        n_public: int | None = None,
        max_iter: int = 10_000,
        tol: float = 1e-6,
        random_state: Any = None,
        verbose: int = 0,
        ledger: Any = None,
        dataset: str | None = None,
        accept_delta: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_bound = data_bound
        self.label_bounds = label_bounds
        self.radius = radius
        self.n_steps = n_steps
        self.fit_intercept = fit_intercept
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

    def _target_unit(self) -> float:
        low, high = self._bounds()
        return max(high - self._middle(), self._middle() - low)

    def _label_bound(self) -> float:
        return 1.0

    def _assumptions(self) -> tuple[str, ...]:
        return (f"label_bounds = {tuple(encode(self.label_bounds))} (labels beyond were clipped to them)",)

    @whole_fit
    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on X and y.

        Parameters
        ----------
        X : array, memory map, sparse matrix or data frame of shape (n_samples, n_features)
            Private. float32 and float64 are used as they are, without a copy unless entries are clipped.
        y : array of shape (n_samples,)
            Private. Numbers; those beyond ``label_bounds`` are clipped to them.

        Returns
        -------
        self
        """
        streams = self._check_parameters()
        with self._charged(X, y, streams) as charge:
            X, y = self._read_rows(X, y)
            targets = (bounded_labels(y, self._bounds(), type(self).__name__) - self._middle()) / self._target_unit()
            plan = self._plan(X.shape[0], X.shape[1], 1)
            self._fit_models(X, [targets], plan, streams, charge)
        self.coef_ = self.coef_[0]
        self.intercept_ = float(self.intercept_[0]) + self._middle()
        self._tie_receipt()
        return self

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
