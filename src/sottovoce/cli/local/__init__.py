"""``sottovoce local``: one locally private report from each device."""

from sottovoce.cli._lazy import group

__all__ = ["local"]

_NAMES = ("plan", "protocol", "tokens", "survey", "randomize", "collect", "export", "fit", "predict")

local = group("One locally private report from each device.", **{name: f"{__name__}.{name}" for name in _NAMES})
