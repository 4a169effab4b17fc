"""``sottovoce vertical``: columns of the same people at several organisations."""

from sottovoce.cli._lazy import group

__all__ = ["vertical"]

_PLACES = {
    "simulate": "simulate", "provision": "kits", "party": "sites", "train": "train", "status": "sites",
    "predict": "train",
}  # fmt: skip

vertical = group(
    "Columns of the same people at several organisations.",
    **{name: f"{__name__}.{module}:{name}" for name, module in _PLACES.items()},
)
