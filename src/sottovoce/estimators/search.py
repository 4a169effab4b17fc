"""Hyper-parameter search with one receipt: a random, secret number of trials, the best by a noisy score."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from sottovoce._entries import numbers_of
from sottovoce._numerics import Vector
from sottovoce._parameters import attribute, estimator, parameter
from sottovoce._validation import MAX_EPSILON, number
from sottovoce._whole_fit import whole_fit
from sottovoce.central.core import drive
from sottovoce.central.data.lengths import measure_rows
from sottovoce.central.data.operation import Held
from sottovoce.central.data.part import Part
from sottovoce.central.data.row_memory import LABEL
from sottovoce.central.data.streamed import OutsideTable
from sottovoce.central.parallel import team
from sottovoce.estimators._solvers import accelerated_solver
from sottovoce.estimators.base import (
    Circumstances,
    PrivateEstimator,
    arguments_of,
    model_digest,
    public_rows,
    size_before_reading,
)
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.models import circumstances_again, model_again, model_receipt_again
from sottovoce.estimators.penalised import weight_bound
from sottovoce.estimators.reading import holding_labels, least_rows, read_rows
from sottovoce.estimators.regressor import DPLinearRegressor
from sottovoce.estimators.remote import AroundModel
from sottovoce.estimators.scaler import SCALED_SEARCH
from sottovoce.estimators.search_plan import (
    SearchPlan,
    check_space,
    combinations,
    draw,
    row_losses,
    score,
    score_mechanism,
    scoring_for,
)
from sottovoce.exceptions import AccountingError, DataError, ParameterError
from sottovoce.privacy.adjacency import Adjacency
from sottovoce.privacy.events import Event
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.trials import MOST_TRIALS, TrialCount
from sottovoce.randomness import Purpose, Streams, uncounted_fits

_MOST_CHANCE: Final = 0.01  # of coins that hold out all rows or none, and so of a charge that is lost
_Trial = tuple[dict[str, Any], DPLinearEstimator]


@estimator
class DPSearchCV(AroundModel, MetaEstimatorMixin, PrivateEstimator[SearchPlan]):  # type: ignore[misc]
    r"""Random search over hyper-parameters with differential privacy, one budget and one receipt for all of it.

    Each trial draws hyper-parameters at random, trains on one part of the rows with a part of the budget, and scores
    the model on the other part with noise. The trial with the best noisy score is released, nothing of the others. The
    number of trials is random and secret, which keeps the price of all trials near that of a few [1]_ [2]_.

    The name ends in CV as in scikit-learn, but this is **not** cross-validation: one random split serves all trials,
    and the best model is not trained again on all rows (both would cost more budget). The defaults of the estimators
    need no tuning; when a search pays is measured in ``docs/guide/search.md``.

    Notes
    -----
    Privacy: adjacency and unit are the estimator's. Statement and proof: ``docs/privacy/search.md``. There is no
    ``verbose``: progress would show the number of trials. **The promise does not hold against anyone who saw when the
    search began and ended**: the run time tells that number. A ledger does not: it is told that the search was made
    before the first trial, and knows the day only.

    References
    ----------
    .. [1] Liu, Talwar (2019). Private Selection from Private Candidates. STOC 2019; arXiv:1811.07971.
    .. [2] Papernot, Steinke (2022). Hyperparameter Tuning with Renyi Differential Privacy. ICLR 2022; arXiv:2110.03620,
       Theorems 2 and 6.

    Examples
    --------
    >>> import numpy as np
    >>> from sottovoce import DPLogisticRegression, DPSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (4000, 2))
    >>> y = np.where(X @ [1.0, -0.5] > 0, "yes", "no")
    >>> model = DPLogisticRegression(data_norm=2**0.5, classes=["no", "yes"])
    >>> search = DPSearchCV(model, {"alpha": [1e-5, 1e-3, 10.0]}, epsilon=1.0, delta=1e-6, random_state=0).fit(X, y)
    >>> search.score(X, y) > 0.9
    True
    >>> search.guarantee_.epsilon
    1.0
    """

    estimator: Any = parameter(
        "DPRidge, DPLogisticRegression or DPLinearSVC",
        kw_only=False,
        text="""Its ``epsilon`` and ``delta`` must be None: the search sets them. Its solver must be one without
        sampling; ``"auto"`` means ``"scd"`` here, and ``"multinomial-scd"`` for a logistic model of more than two
        classes.""",
    )
    param_distributions: Any = parameter(
        "dict",
        kw_only=False,
        text="""From names of parameters to lists (drawn uniformly) or distributions with an ``rvs`` method, as in
        scipy.stats. Public, chosen without the data. Of the parameters ``alpha``, ``data_norm``, ``fit_intercept``,
        ``intercept_scaling``, ``solver`` and ``solver_options`` can be searched.""",
    )
    epsilon: float | None = parameter("float, > 0", default=None, text="Privacy budget of the whole search.")
    n_iter: float = parameter(
        "float, in [1, 1e6]",
        default=10,
        text="Expected number of trials. The actual one is random (geometric), at least 1, and not told.",
    )
    validation_size: float = parameter(
        "float, in (0, 1)",
        default=0.2,
        text="Probability with which a row is held out for scoring, each by its own coin.",
    )

    best_estimator_: DPLinearEstimator = attribute(
        "estimator",
        """The trained model of the best trial, with the receipt of the whole search. Its ``epsilon`` and ``delta`` are
        the budget of that one trial.""",
    )
    best_params_: dict[str, Any] = attribute("dict", "Its hyper-parameters.")
    best_score_: float = attribute(
        "float",
        """Its noisy score on the held-out rows: accuracy, or minus the mean squared error. Larger is better. Biased
        upward, as the best of several.""",
    )

    _word = "search"

    def _checked(self) -> DPLinearEstimator:
        if not isinstance(self.estimator, DPLinearEstimator):
            raise ParameterError(
                f"estimator must be one of sottovoce's models; got {type(self.estimator).__name__}. {SCALED_SEARCH}"
            )
        if not hasattr(self.estimator, "data_norm"):
            raise ParameterError(
                f"estimator must be one with data_norm; got {type(self.estimator).__name__}, which the search does not "
                "cover yet. Choose radius from public knowledge."
            )
        if self.estimator.max_rows_per_group is not None:
            raise ParameterError(
                "max_rows_per_group of the estimator must be None: the search holds out row by row, and has no form "
                f"for persons of several rows; got {self.estimator.max_rows_per_group!r}. Fit without a search: the "
                "defaults need no tuning."
            )
        own = ("epsilon", "delta", "accept_delta", "random_state", "ledger", "dataset")
        self._refuse_own(self.estimator, "estimator", own)
        return self.estimator

    def known_models(self) -> int | None:
        return self._checked().known_models()

    def planned_models(self) -> int:
        return self._checked().planned_models()

    def plan_for(self, n_samples: int, n_features: int, n_models: int) -> SearchPlan:
        prototype = self._checked()
        epsilon = number("epsilon", self.epsilon, above=0.0, at_most=MAX_EPSILON)
        delta = number("delta", self.delta, above=0.0, below=1.0, remedy="Choose it well below 1 / n_samples.")
        n_iter = number("n_iter", self.n_iter, at_least=1.0, at_most=MOST_TRIALS)
        validation_size = number("validation_size", self.validation_size, above=0.0, below=1.0)
        check_space(self.param_distributions)
        # the estimator's own parameters: adjacency, n_public and the like
        own = clone(prototype).set_params(epsilon=epsilon, delta=delta, accept_delta=self.accept_delta)
        facts = own.plan_for(n_samples, n_features, n_models)
        scoring, bound = scoring_for(prototype)
        plan = SearchPlan(
            epsilon=epsilon, delta=delta, adjacency=facts.adjacency, n_iter=n_iter, scoring=scoring, score_bound=bound,
            validation_size=validation_size, n_samples=facts.n_samples,
            n_features=n_features,
        )  # fmt: skip
        for params in combinations(self.param_distributions):
            _trial(prototype, params, plan, n_models)
        return plan

    def _check_table(self, X: Any, plan: SearchPlan) -> None:
        if isinstance(X, OutsideTable):
            raise ParameterError(
                f"X is a {type(X).__name__}, and a search takes tables in memory: the rows that are held out are drawn "
                "there. Give an array or a data frame, or fit without a search: the defaults need no tuning."
            )
        held_out, n_rows = plan.validation_size, plan.n_samples
        chance = held_out**n_rows + (1.0 - held_out) ** n_rows
        if chance > _MOST_CHANCE and size_before_reading(X, least_rows(self)):
            raise ParameterError(
                f"validation_size={held_out:g} is no choice for n_samples={n_rows}: with one random coin a row, all or "
                f"none would be held out with probability {chance:.2g}, and what is charged would be lost. Change "
                "validation_size, or fit without a search: the defaults need no tuning."
            )

    @whole_fit
    def fit(self, X: Any, y: Any) -> Self:
        """Search on X and y.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Private.
        y : array of shape (n_samples,)
            Private. Class labels, or numbers, clipped to ``label_bounds``.

        Returns
        -------
        self

        Raises
        ------
        ParameterError
            Before any work: a parameter is missing, out of range or does not fit another one.
        DataError
            Before any noise is drawn: NaN or infinity in X or y, a label outside ``classes``.
        AccountingError
            Before anything is released: a trial cost more than planned.
        """
        with self.running(X, y) as run:
            # Whatever can be wrong with the data is found here, on all rows, and not in a trial on some of them.
            prototype, X, y, numbers = self._read(X, y)
            plan = run.plan_for(X.shape[0], X.shape[1], prototype.planned_models())
            run.begin(plan)
            # each row by its own coin, whatever the data are
            held_out = run.streams.generator(Purpose.SHUFFLING).random(X.shape[0]) < plan.validation_size
            if least_rows(prototype) and (held_out.all() or not held_out.any()):
                raise DataError(
                    f"the rows are too few for validation_size={plan.validation_size:g}: with one random coin a row, "
                    "all or none were held out. Change validation_size or search on more rows."
                )
            # The ledger hears its last word before the first trial: an entry after the last one, and be it without a
            # time, would tell by its place among other people's entries how long the trials took, and so how many.
            event = plan.event_of(score_mechanism(plan.adjacency, plan.noise_multiplier).event)
            of_run = run.commit(event)
            train, scored = (X[~held_out], y[~held_out]), (X[held_out], numbers[held_out])
            trials = self._trials(prototype, plan, run.streams)
            noisy, params, best = _best_of(trials, plan, train, scored, run.streams)
            n_scored = len(scored[1]) if prototype.n_public is None else plan.n_samples * plan.validation_size
            middle = 0.5 if plan.scoring == "accuracy" else -0.5 * plan.score_bound
            self.best_score_ = middle + 0.5 * plan.score_bound * noisy / n_scored
            self.best_params_, self.best_estimator_ = params, best
            self.charge_ = best.charge_ = of_run.charge
            # what the search had set, back to what the user gave; epsilon and delta stay as the model was trained
            for name in ("classes", "n_public", "random_state", "verbose"):
                if hasattr(self.estimator, name):
                    setattr(best, name, getattr(self.estimator, name))
            if hasattr(prototype, "feature_names_in_"):
                self.feature_names_in_ = best.feature_names_in_ = prototype.feature_names_in_
            self.n_features_in_ = plan.n_features
            of_model = of_run._replace(model=model_digest(best))
            self.guarantee_ = best.guarantee_ = search_receipt(plan, best, best.guarantee_, event, of_model)
        return self

    def _read(self, X: Any, y: Any) -> tuple[DPLinearEstimator, Any, Any, Vector]:
        """Return the estimator with its public class list, X, y, and y as numbers for the scores."""
        prototype: DPLinearEstimator = clone(self.estimator)
        X, y = read_rows(prototype, X, y)
        holder = holding_labels(y)
        prototype.read_labels(holder)
        if isinstance(prototype, DPLinearRegressor):
            numbers = np.clip(numbers_of(y), *prototype.label_range())
        else:
            numbers = holder.memory.whole(LABEL).astype(np.float64)
            if prototype.classes is None:
                prototype.classes = list(prototype.classes_)
        with team() as threads:
            measure_rows(Part(X, threads), getattr(prototype, "feature_names_in_", None))
        return prototype, X, y, numbers

    def _trials(self, prototype: DPLinearEstimator, plan: SearchPlan, streams: Streams) -> list[_Trial]:
        """Draw and check all trials, before the first one is trained."""
        chance, n_models = streams.generator(Purpose.SAMPLING), prototype.planned_models()
        trials = []
        for _ in range(TrialCount(plan.n_iter).draw(chance)):
            params = draw(self.param_distributions, chance)
            seed = int(chance.integers(2**63)) if streams.seeded else None
            trials.append((params, _trial(prototype, params, plan, n_models, seed)))
        return trials

    def _prototype(self) -> Any:
        return getattr(self, "best_estimator_", self.estimator)

    def _model(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def to_sklearn(self, **options: Any) -> Any:
        """Return the best model as a plain estimator of scikit-learn; see its ``to_sklearn``."""
        return self._model().to_sklearn(**options)

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags"):
            setattr(tags, name, getattr(own, name))
        tags.input_tags.sparse = own.input_tags.sparse
        return tags


def search_receipt(
    plan: SearchPlan, best: DPLinearEstimator, trial: Guarantee, event: Event, run: Circumstances
) -> Guarantee:
    """Return the receipt of a search.

    ``best`` has the arguments of the best trial and what the user gave; ``trial`` is the receipt of that trial alone.
    """
    return run.receipt(
        plan,
        {**trial.parameters, **plan.details(), "search": plan.facts()},
        last={"arguments": arguments_of(best)},
        mechanism=(
            "private selection: the best, by a noisy score on held-out rows, of a random and secret number of "
            f"trials; each trial: {trial.mechanism}"
        ),
        releases=(
            "of the best trial: its hyper-parameters and its noisy score",
            *(f"of the best trial: {what}" for what in trial.releases),
        ),
        event=event,
        assumptions=(
            best.public_sizes(plan.n_samples, plan.n_features),
            "param_distributions and all constructor parameters of search and estimator, chosen without looking at "
            "the data",
            *(f"of the best trial: {said}" for said in trial.assumptions[1:]),
        ),
        exceptions=(
            "anyone who saw when the search began and ended, or what it used: that tells the number of trials, and "
            "whoever knows this number can learn more than this epsilon allows",
        ),
        proof="docs/privacy/search.md",
    )


def receipt_again(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    """Return the receipt that a search with these parameters gets."""
    best = model_again(parameters)
    scoring, bound = scoring_for(best)
    plan = SearchPlan(
        adjacency=Adjacency.parse(best.adjacency), scoring=scoring, score_bound=bound, **parameters["search"]
    )
    if public_rows(best.adjacency, plan.n_samples, best.n_public)[1] != plan.n_samples:
        raise ParameterError("n_public of the model is not the public number of rows of the search.")
    trial = model_again(parameters, n_public=plan.n_train)
    if (trial.epsilon, trial.delta) != (plan.trial_epsilon, plan.trial_delta):
        raise ParameterError("the budget of the best trial is not the one that the search gives to a trial.")
    trial_plan = trial.plan_for(plan.n_train, plan.n_features, parameters["models"])
    if not plan.keeps_budget(trial_plan.event):
        raise ParameterError("the best trial costs more than the search gives to a trial.")
    seen = model_receipt_again(trial, trial_plan, receipt, parameters)
    return search_receipt(plan, best, seen, plan.event, circumstances_again(receipt, parameters))


def _best_of(
    trials: Sequence[_Trial], plan: SearchPlan, train: tuple[Any, Any], scored: tuple[Any, Vector],
    streams: Streams,
) -> tuple[float, dict[str, Any], DPLinearEstimator]:  # fmt: skip
    """Run the trials and return the best one with its score; what the others were leaves this function in no way."""
    best: tuple[float, dict[str, Any], DPLinearEstimator] | None = None
    mechanism = score_mechanism(plan.adjacency, plan.noise_multiplier)
    streams.warn_of_second_use()  # below, warnings are hushed
    with warnings.catch_warnings(action="ignore"), uncounted_fits():  # one warning a trial would count them
        for params, trial in trials:
            losses = row_losses(plan.score_bound, trial.fit(*train), *scored)
            scored_by = drive(lambda: score(plan.score_bound, mechanism), Held(losses), streams)
            noisy, spent = scored_by.result, scored_by.event
            # a row is in one of the two parts, so a trial costs the larger of the two
            for part in (trial.guarantee_.event, spent):
                if not plan.keeps_budget(part):
                    raise AccountingError(
                        f"a trial cost more than the mu={plan.mu!r} of the plan ({part!r}); nothing was released."
                    )
            if best is None or noisy > best[0]:
                best = noisy, params, trial
    assert best is not None
    return best


def _trial(
    prototype: DPLinearEstimator, params: dict[str, Any], plan: SearchPlan, n_models: int, seed: int | None = None
) -> DPLinearEstimator:
    """Return the estimator of a trial, whose plan is within the budget of a trial."""
    budget = {
        "epsilon": plan.trial_epsilon,
        "delta": plan.trial_delta,
        "accept_delta": plan.trial_delta,  # that of the search was looked at; this one is never larger
        "n_public": plan.n_train,
    }
    trial: Any = clone(prototype).set_params(**params, **budget, random_state=seed, verbose=0)
    if trial.solver == "auto":  # the one that can be searched
        trial.solver = "scd" if weight_bound(trial) is not None else accelerated_solver(trial._loss, n_models)
    try:
        event = trial.plan_for(plan.n_train, plan.n_features, n_models).event
    except ParameterError as error:
        raise ParameterError(f"a trial with {params!r} cannot run: {error}") from None
    try:
        if plan.keeps_budget(event):
            return trial  # type: ignore[no-any-return]
        reason = "its trials cost more than the epsilon they are given"
    except AccountingError:
        reason = "its trials are not Gaussian mechanisms without sampling, for which alone the search is proved"
    raise ParameterError(f"solver={trial.solver!r} cannot be searched: {reason}. Use solver='scd'.")
