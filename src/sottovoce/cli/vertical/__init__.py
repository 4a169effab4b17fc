"""``sottovoce vertical``: columns of the same people at several organisations."""

from sottovoce.cli._lazy import group

__all__ = ["vertical"]

_NAMES = ("simulate", "provision", "coordinator", "party", "train", "status", "predict")

vertical = group(
    "Columns of the same people at several organisations.", **{name: f"{__name__}.{name}" for name in _NAMES}
)
