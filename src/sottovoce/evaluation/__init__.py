"""Private evaluation: how good a model is on rows that nobody may see, with intervals, from a few noisy counts."""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazy_names

if TYPE_CHECKING:
    from sottovoce.evaluation.evaluating import evaluate
    from sottovoce.evaluation.evaluation import Evaluation

__all__ = ["Evaluation", "evaluate"]

__getattr__ = lazy_names(__name__, {"Evaluation": "evaluation", "evaluate": "evaluating"})
