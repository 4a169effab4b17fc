"""A private search: one winner of many models, charged once."""

from typing import TYPE_CHECKING

from sottovoce._lazy import lazy_names

if TYPE_CHECKING:
    from sottovoce.estimators.search.search import DPSearchCV

__all__ = ["DPSearchCV"]

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "search"))
