"""Logistic regression."""

from typing import Any

from sottovoce.estimators._logistic import LogisticClassifier
from sottovoce.losses import Logistic, Loss

__all__ = ["DPLogisticRegression"]


class DPLogisticRegression(LogisticClassifier):
    r"""Logistic regression with differential privacy.

    Minimises, over rows divided by ``data_norm`` and labels -1 and +1,
    :math:`\frac1n \sum_i \log(1 + e^{-y_i (x_i^\top w + b)}) + \frac\alpha2 (|w|^2 + b^2 / s^2)`
    with s = ``intercept_scaling``, by accelerated full-batch DP-SCD [1]_. Nothing has to be tuned. More than two
    classes are trained one-vs-rest: each model spends an equal part of the budget, mu / sqrt(n_classes) in terms of
    Gaussian DP.

    Parameters
    ----------
    epsilon : float, > 0
        Privacy budget; ``inf`` trains without noise and says so in the receipt.
    delta : float, in (0, 1)
        Probability with which the guarantee may fail; choose it well below 1 / n_samples.
    data_norm : float, in [1e-50, 1e50]
        Public bound on the Euclidean norm of a row, in the unit of X. Longer rows are shortened to it in training.
    classes : list or None, default None
        Public list of the classes. A label outside it is an error; a class that is absent from the data is fine. None
        reads the list from y, with a warning, and the receipt says so.
    alpha : float in [1e-50, 1e50] or "auto", default 5e-5
        Strength of the L2 penalty for rows in units of ``data_norm``. ``"auto"`` follows the
        public number of rows: 1 / (2 n), at most 1e-3 and, with a finite epsilon, at least 2e-5.
    fit_intercept : bool, default True
        Add a constant column. Its weight is penalised like the others, as in liblinear.
    intercept_scaling : float, in [1e-50, 1e50], default 0.2
        Value of that column in units of ``data_norm``. Larger ones learn a large intercept faster and cost noise in
        every weight.
    solver : str, default "auto"
        ``"scd"``: accelerated full-batch DP-SCD (what ``"auto"`` takes); ``"minibatch-scd"``: Poisson mini-batches with
        secret dual variables; ``"objective"``: objective perturbation, one noisy minimiser. For comparison:
        ``"sgd"``: DP-SGD; ``"seq-scd"`` and ``"primal-scd"``: sequential and primal DP-SCD; ``"paper-scd"``: the
        published Algorithm 1, whose receipt states an epsilon that is larger than the one asked for. Where each wins:
        ``docs/guide/solvers.md``.
    solver_options : dict or None
        Public parameters of the solver: ``n_passes`` for ``"scd"``; ``batch_size`` and ``epochs`` for
        ``"minibatch-scd"``, these and ``clipping_norm`` for ``"paper-scd"`` and ``"seq-scd"``, these and
        ``learning_rate`` for ``"sgd"``; ``block_size``, ``epochs`` and ``clipping_norm`` for ``"primal-scd"``;
        ``penalty`` and ``tolerance`` for ``"objective"``. None follows measured rules.
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
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    n_iter_ : int
        Passes over the data of each model; follows from public facts and noisy releases only.
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

    References
    ----------
    .. [1] Damaskinos et al. (2021). Differentially Private Stochastic Coordinate Descent. AAAI 2021; Algorithm 1, with
           the
       changes and the proof in ``docs/privacy/dp_scd.md``.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce import DPLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 2))
    >>> y = np.where(X @ [1.0, -0.5] > 0, "yes", "no")
    >>> model = DPLogisticRegression(epsilon=1.0, delta=1e-6, data_norm=2**0.5, classes=["no", "yes"], random_state=0)
    >>> model.fit(X, y).score(X, y) > 0.9
    True
    >>> model.guarantee_.epsilon
    1.0
    """

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        data_norm: float | None = None,
        classes: Any = None,
        alpha: float | str = 5e-5,
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
        self.classes = classes
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
        return Logistic(one_newton_step=self.solver == "paper-scd")
