"""``sottovoce local``: one locally private report from each device."""

from sottovoce.cli._lazy import group

__all__ = ["local"]

_PLACES = {
    "plan": "protocols", "protocol": "protocols", "tokens": "collecting", "survey": "collecting",
    "randomize": "reports", "collect": "collecting", "export": "reports", "fit": "reports", "predict": "reports",
}  # fmt: skip

local = group(
    "One locally private report from each device.",
    **{name: f"{__name__}.{module}:{name}" for name, module in _PLACES.items()},
)
