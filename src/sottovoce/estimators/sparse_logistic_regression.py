"""Logistic regression on the l1 ball."""

from typing import Any

from sottovoce.estimators._l1_ball import DPBallEstimator
from sottovoce.estimators._logistic import LogisticClassifier
from sottovoce.losses import Logistic, Loss

__all__ = ["DPSparseLogisticRegression"]


class DPSparseLogisticRegression(DPBallEstimator, LogisticClassifier):
    r"""Logistic regression with few coefficients, with differential privacy.

    Minimises, over labels -1 and +1, :math:`\frac1n \sum_i \log(1 + e^{-y_i (x_i^\top w + b)})` over
    :math:`\|w\|_1 + |b| / B \le` ``radius``, where B = ``data_bound``, by private Frank-Wolfe [1]_. The noise grows
    with the logarithm of the number of columns only. At most ``n_iter_`` coefficients of a model are not zero. More
    than two classes are trained one-vs-rest, with as many selections for each model.

    Parameters
    ----------
    epsilon : float, > 0
        Privacy budget; ``inf`` trains without noise, by projected gradients, and says so in the receipt.
    delta : float, in (0, 1)
        Probability with which the guarantee may fail; choose it well below 1 / n_samples.
    data_bound : float, in [1e-50, 1e50]
        Public bound on the absolute value of every entry, in the unit of X. Larger entries are clipped to it in
        training. Columns of very different units should be scaled by public factors first.
    radius : float, in [1e-50, 1e50]
        Bound on the l1 norm of the coefficients of a model, in the reciprocal unit of X.
    classes : list or None, default None
        Public list of the classes. A label outside it is an error; a class that is absent from the data is fine. None
        reads the list from y, with a warning, and the receipt says so.
    n_steps : int or None, default None
        Number of steps of each model; more cost more noise each. None follows a measured rule from public facts.
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
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Steps of each model; follows from public facts.
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
        From `fit`, before any noise is drawn: NaN or infinity in X, a label outside ``classes``, one class only.

    Notes
    -----
    A sparse X is trained by steps that cost far less than a pass over it (`sottovoce.central.fast_frank_wolfe`), except
    those that take the intercept.

    References
    ----------
    .. [1] Talwar, Thakurta, Zhang (2015). Nearly Optimal Private LASSO. NIPS 2015; Algorithm 2, with the changes and
       the proof in ``docs/privacy/frank_wolfe.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce import DPSparseLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 300))
    >>> y = np.where(X[:, 7] - X[:, 42] > 0, "yes", "no")
    >>> model = DPSparseLogisticRegression(
    ...     epsilon=1.0, delta=1e-6, data_bound=1.0, radius=8.0, classes=["no", "yes"], random_state=0
    ... )
    >>> model.fit(X, y).score(X, y) > 0.85
    True
    >>> model.guarantee_.epsilon
    1.0
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        data_bound: float | None = None,
        radius: float | None = None,
        classes: Any = None,
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
        self.radius = radius
        self.classes = classes
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
        return Logistic()
