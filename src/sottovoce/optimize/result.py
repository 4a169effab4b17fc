"""What a run of block-coordinate Frank-Wolfe returns."""

from dataclasses import dataclass

from sottovoce.optimize._arrays import Array, Indices

__all__ = ["BlockFrankWolfeHistory", "BlockFrankWolfeResult"]


@dataclass(frozen=True)
class BlockFrankWolfeHistory:
    """One entry for each time the full duality gap was computed.

    Attributes
    ----------
    steps : ndarray of int
        Steps made by then.
    values : ndarray
        f(x).
    gaps : ndarray
        Duality gap at x: an upper bound of f(x) - min f.
    """

    steps: Indices
    values: Array
    gaps: Array


@dataclass(frozen=True)
class BlockFrankWolfeResult:
    """The last iterate, and how sure it is.

    Attributes
    ----------
    x : ndarray of shape (n_coordinates,)
        The last iterate, in the domain.
    value : float
        f(x).
    gap : float
        Duality gap at x, from exact gradients: f(x) - min f is at most this.
    n_steps : int
        Steps made.
    n_block_updates : int
        Blocks moved in them, in total.
    stop_reason : {"gap", "max_iter", "callback"}
    history : BlockFrankWolfeHistory
    """

    x: Array
    value: float
    gap: float
    n_steps: int
    n_block_updates: int
    stop_reason: str
    history: BlockFrankWolfeHistory

    @property
    def converged(self) -> bool:
        """True when the gap is within the tolerance."""
        return self.stop_reason == "gap"
