"""The frozen plan of an evaluation: from public facts to the noise of its tables of counts, and its receipt."""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

from sottovoce._numerics import ROUNDING_SLACK
from sottovoce._shown import is_class_name
from sottovoce._validation import MAX_EPSILON, bounds, choice, number, refuse_large_delta, whole_number
from sottovoce.exceptions import ParameterError
from sottovoce.ledger.ledger import Charge
from sottovoce.privacy.adjacency import Adjacency, checked_max_rows, unit_of
from sottovoce.privacy.calibration import gaussian_mu
from sottovoce.privacy.events import Event, compose
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from sottovoce.privacy.mechanisms.gaussian import GridGaussian
from sottovoce.privacy.receipts import make_receipt

Mechanism = DiscreteLaplace | GridGaussian

PARTS: Final = 2**20  # ticks that a row is counted as; a row on two axes is shared on both
RANGE_CELLS: Final = 64
COUNTS: Final = "released counts (SHA-256)"  # in a receipt: what all figures follow from
_MOST_ROWS: Final = 2**32  # sums of as many ticks are exact in double precision
LEAST_EPSILON: Final = 1e-6
_LEAST_WIDTH: Final = 2.0**-30  # of bounds on labels, over their size: steps between nodes are 2^-12 of it, and less

# What is evaluated, and which tables of counts are released for it, with their shares of the budget. The first ones
# find where scores, residuals and labels are, so that the nodes of the table are where rows are.
TASKS: Final[dict[str, dict[str, float]]] = {
    "binary, probabilities": {"range": 0.15, "table": 0.85},
    "binary, scores": {"range": 0.15, "table": 0.85},
    "classes": {"table": 1.0},
    "classes, probabilities": {"table": 0.6, "losses": 0.4},
    "regression": {"range": 0.1, "labels": 0.1, "table": 0.8},
}
_N_CLASSES: Final = {"regression": (0, 0), "classes": (2, 1000), "classes, probabilities": (2, 1000)}  # else two
_RELEASED: Final = {
    "range": "a histogram of the scores, or residuals, with noise: it places the nodes of the table",
    "labels": "a histogram of the labels, with noise: it places the nodes of the table",
    "table": "the table of counts by label and by score, prediction or residual, with noise",
    "losses": "the table of counts by log loss and squared loss, with noise",
}
_NOT_COVERED: Final = (
    "timing, memory and other side channels of the machine that evaluates, and whether the evaluation failed",
    "the model: what it tells of the rows that it was trained on is the matter of its own receipt, and on the same "
    "people both add up",
    "choosing a model, a threshold or rows by looking at evaluations: each evaluation of the same people adds up",
)
_ONE_ROW: Final = "rows of the same person beyond one: k rows cost k times epsilon, and more of delta"
_GAUSSIANS: Final = "how exactly floating-point Gaussians follow their law"


@dataclass(frozen=True, kw_only=True)
class EvaluationPlan:
    """Public facts and privacy parameters of an evaluation."""

    task: str  # a key of `TASKS`
    n_classes: int  # 0 for a regression
    label_bounds: tuple[float, float] | None  # of a regression
    # With ``delta=0`` the noise is discrete Laplace, else Gaussian.
    epsilon: float
    delta: float = 0.0
    adjacency: Adjacency
    n_samples: int  # public number of rows (a stand-in for it under add-remove adjacency)
    # Public bound on the rows of a person that are used; None where the unit is a row.
    max_rows_per_group: int | None = None
    accept_delta: float | None = None  # a large delta, said a second time

    def __post_init__(self) -> None:
        choice("task", self.task, TASKS)
        if self.task == "regression":
            remedy = "They are public bounds on the labels; never compute them from the data."
            low, high = bounds("label_bounds", self.label_bounds, remedy=remedy)
            if high - low < _LEAST_WIDTH * max(abs(low), abs(high)):
                raise ParameterError(
                    f"label_bounds are too near to each other for their size, ({low!r}, {high!r}): no table has room "
                    "between them in double precision. Take a public number from all labels before training."
                )
            object.__setattr__(self, "label_bounds", (low, high))
        least, most = _N_CLASSES.get(self.task, (2, 2))
        whole_number("n_classes", self.n_classes, at_least=least, at_most=most)
        remedy = "There is no evaluation without noise here: scikit-learn's metrics are."
        vars(self).update(
            epsilon=number("epsilon", self.epsilon, at_least=LEAST_EPSILON, at_most=MAX_EPSILON, remedy=remedy),
            delta=number("delta", self.delta, at_least=0.0, below=1.0, remedy="0 is pure differential privacy."),
        )
        whole_number("n_samples", self.n_samples, at_least=1, at_most=_MOST_ROWS)
        if self.max_rows_per_group is not None:
            object.__setattr__(self, "max_rows_per_group", checked_max_rows(self.max_rows_per_group))
        refuse_large_delta(self.delta, self.n_samples, self.accept_delta)

    @property
    def tables(self) -> dict[str, float]:
        """The tables that are released, in order, and their shares of epsilon, or of mu squared."""
        return TASKS[self.task]

    @cached_property
    def mechanisms(self) -> dict[str, Mechanism]:
        """What releases each table."""
        return {name: self._mechanism(share) for name, share in self.tables.items()}

    def _mechanism(self, share: float) -> Mechanism:
        rows, replaced = self.max_rows_per_group or 1, self.adjacency is Adjacency.REPLACE_ONE
        if self.delta == 0.0:
            # rounded down, so that the parts do not add up to more than the whole in the last digit
            part = self.epsilon if share == 1.0 else self.epsilon * share * (1.0 - 2.0**-50)
            return DiscreteLaplace(part, PARTS * rows * (1 + replaced), 1.0 / PARTS)
        # two vectors without negative entries are at most sqrt(2) times their length apart
        sensitivity = rows * (math.sqrt(2.0) * ROUNDING_SLACK if replaced else 1.0)
        mu = gaussian_mu(self.epsilon, self.delta) * math.sqrt(share) * (1.0 - 2.0**-50)
        return GridGaussian(sensitivity, 1.0 / mu, 1.0 / PARTS)

    @cached_property
    def event(self) -> Event:
        """What the evaluation costs."""
        return compose(*(mechanism.event for mechanism in self.mechanisms.values()))

    @property
    def n_nodes(self) -> int:
        """Nodes of the axis of scores or residuals: more where noise and sampling are small."""
        rows = self.n_samples / (self.max_rows_per_group or 1)
        return min(24, max(10, 2 * round(1.6 * math.pow(rows * min(self.epsilon, 1.0), 1 / 6))))

    def summary(self) -> dict[str, object]:
        """Return the plan in plain words and numbers."""
        noise = {f"noise in a count of the {name}": mechanism.noise_std for name, mechanism in self.mechanisms.items()}
        return {
            "task": self.task,
            "n_samples": self.n_samples,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "noise": "two-sided geometric" if self.delta == 0.0 else "Gaussian",
            **noise,
            "event": self.event.describe(),
        }

    def facts(self) -> dict[str, object]:
        """Return what the plan can be made from again."""
        bounds_ = None if self.label_bounds is None else list(self.label_bounds)
        return {**asdict(self), "adjacency": self.adjacency.value, "label_bounds": bounds_}

    @classmethod
    def from_facts(cls, facts: dict[str, object]) -> "EvaluationPlan":
        """Undo `facts`."""
        given = dict(facts)
        adjacency, label_bounds = given.pop("adjacency", None), given.pop("label_bounds", None)
        if not isinstance(adjacency, str) or not isinstance(label_bounds, (list, tuple, type(None))):
            raise ParameterError("adjacency must be a text, and label_bounds a pair or None.")
        pair = None if label_bounds is None else tuple(label_bounds)
        return cls(**given, adjacency=Adjacency.parse(adjacency), label_bounds=pair)  # type: ignore[arg-type]


def evaluation_receipt(
    plan: EvaluationPlan,
    *,
    evaluated: str,
    event: Event,
    seeded: bool,
    counts: str,
    model: str | None = None,
    charge: Charge | None = None,
) -> Guarantee:
    """Return the receipt of an evaluation.

    ``evaluated``: name of the class of the model.
    ``event``: what was released.
    ``counts``: digest of the released counts.
    ``model``: digest of the model.
    """
    size = "n_public" if plan.adjacency is Adjacency.ADD_REMOVE else "n_samples"
    rows = plan.max_rows_per_group
    noise = "two-sided geometric noise on whole counts" if plan.delta == 0.0 else "Gaussian noise on a grid"
    per_person = () if rows is None else (
        f"max_rows_per_group = {rows}: of each person at most so many rows are used, drawn at random; rows without a "
        "person are left out; groups says rightly which rows belong to one person",
    )  # fmt: skip
    labels = () if plan.label_bounds is None else (
        f"label_bounds = {plan.label_bounds} (labels and predictions beyond were cut to them)",
    )  # fmt: skip
    return make_receipt(
        epsilon=plan.epsilon,
        delta=plan.delta,
        adjacency=plan.adjacency,
        unit=unit_of(rows),
        mechanism=f"private evaluation: histograms in which a row counts as one, with {noise}",
        releases=(*(_RELEASED[name] for name in plan.tables), "all measures and intervals, which follow from these"),
        event=event,
        assumptions=(
            f"{size} = {plan.n_samples}",
            "the model and all arguments, chosen without looking at the rows of this evaluation; the classes are those "
            "of the model",
            "the model scores each row by itself: its score depends, to the last digit, neither on the other rows nor "
            "on its place among them (so it is with the models of sottovoce, also at the end of a pipeline)",
            "the statement is about the rows of this evaluation. On rows that were held out of training it says how "
            "good the model is; on training rows the figures are optimistic, and this budget adds to that of the model",
            *labels,
            *per_person,
        ),
        not_covered=(
            *_NOT_COVERED,
            *((_ONE_ROW,) if rows is None else ()),
            *(() if plan.delta == 0.0 else (_GAUSSIANS,)),
        ),
        parameters={
            "model that was evaluated": evaluated,
            "evaluation": plan.facts(),
            COUNTS: counts,
            **{f"noise in a count of the {name}": found.noise_std for name, found in plan.mechanisms.items()},
        },
        seeded=seeded,
        proof="docs/privacy/evaluation.md",
        charge=charge,
        model=model,
    )


def receipt_again(receipt: Guarantee, parameters: Mapping[str, Any]) -> Guarantee:
    """Return the receipt that an evaluation with these parameters gets."""
    plan, evaluated = EvaluationPlan.from_facts({**parameters["evaluation"]}), parameters["model that was evaluated"]
    if not is_class_name(evaluated):
        raise ParameterError(f"the model that was evaluated must be the name of a class; got {evaluated!r}.")
    if not re.fullmatch("[0-9a-f]{64}", parameters[COUNTS]):
        raise ParameterError(f"{COUNTS} must be 64 hexadecimal digits; got {parameters[COUNTS]!r}.")
    return evaluation_receipt(
        plan, evaluated=evaluated, event=plan.event, seeded=receipt.seeded, counts=parameters[COUNTS]
    )
