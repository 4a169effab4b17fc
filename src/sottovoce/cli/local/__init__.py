"""``sottovoce local``: one locally private report from each device."""

from sottovoce.cli._lazy import group

__all__ = ["local"]

_PLACES = {
    "plan": "protocols", "protocol": "protocols", "tokens": "invitations", "survey": "invitations",
    "randomize": "reports", "collect": "collect", "export": "reports", "fit": "models", "predict": "models",
}  # fmt: skip

local = group(
    "One locally private report from each device.",
    **{name: f"{__name__}.{module}:{name}" for name, module in _PLACES.items()},
)
