"""The sigmoid in whole numbers: sigmoid(z) - 1/2 as a sum of two clips, which errs by at most .0174."""

from typing import Final

__all__ = ["sigmoid_clips"]

_CLIPS: Final = (
    (1.65649144, 0.25793087),
    (4.03465098, 0.24206913),
)  # (b, h) of h clip(z / b, -1, 1): least largest error


def sigmoid_clips(margin: int, slope: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return whole factors and bounds: sum_k factor_k clip(z, -bound_k, bound_k).

    Parameters
    ----------
    margin, slope : int
        Steps in a unit of z, and in a unit of the sum.
    """
    bounds = tuple(round(b * margin) for b, _ in _CLIPS)
    return tuple(round(h * slope / bound) for (_, h), bound in zip(_CLIPS, bounds, strict=True)), bounds
