"""Warnings that point at the line of whoever called this library, however deep the call went through scikit-learn."""

import sys
import warnings
from types import FrameType
from typing import Final

from sottovoce.exceptions import PrivacyWarning

_PASSED: Final = ("sottovoce", "sklearn", "joblib", "contextlib", "numpy")


def warn_of_privacy(message: str) -> None:
    """Issue a `PrivacyWarning` at the nearest frame that belongs to none of this library, scikit-learn and NumPy."""
    warn_caller(message, PrivacyWarning)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning at that frame."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level if frame is not None else 2)
