"""The promise of a receipt as a measurement of OpenDP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from sottovoce._validation import choice
from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.accounting import GaussianAccountant, RenyiAccountant
from sottovoce.privacy.adjacency import ROW_UNIT, Adjacency

if TYPE_CHECKING:
    from sottovoce.privacy.guarantee import Guarantee

_UP: Final = 1.0 + 1e-12  # rounding of the few operations behind a rho


def opendp_measurement(receipt: Guarantee, run: Callable[[Any], Any] | None, measure: str) -> Any:
    """Return a measurement of OpenDP; see `sottovoce.Guarantee.to_opendp`."""
    choice("measure", measure, ("auto", "zcdp", "approximate", "renyi"))
    if run is not None and not callable(run):
        raise ParameterError(f"run must be a function of a table, or None; got {run!r}.")
    if not receipt.is_private:
        raise ParameterError(f"OpenDP has no measurement for a run without a promise. {receipt.statement()}")
    try:
        import opendp.prelude as dp
    except ImportError:
        raise ParameterError('to_opendp needs OpenDP, which is not installed: pip install "opendp>=0.14".') from None
    privacy, cost = _output(dp, receipt, measure)

    def privacy_map(distance: Any) -> Any:
        if not 0 <= distance <= 1:
            raise ValueError(f"the receipt speaks of tables at distance 1, not {distance!r}: {receipt.unit}.")
        return cost

    try:
        return dp.m.make_user_measurement(
            dp.user_domain("tables of the receipt", lambda _: True), _metric(dp, receipt), privacy,
            _no_run if run is None else run, privacy_map,
        )  # fmt: skip
    except dp.OpenDPException as error:
        if "enable_features" not in str(error):
            raise
        raise ParameterError(
            "OpenDP asks for leave to use what it has not proved itself: "
            'opendp.prelude.enable_features("contrib", "honest-but-curious").'
        ) from None


def _metric(dp: Any, receipt: Guarantee) -> Any:
    """Return the metric in which neighbours have distance 1; OpenDP has its own for rows that come, go or change."""
    adjacency = Adjacency.parse(receipt.adjacency)
    if receipt.unit == ROW_UNIT and adjacency is Adjacency.ADD_REMOVE:
        return dp.symmetric_distance()
    if receipt.unit == ROW_UNIT and adjacency is Adjacency.REPLACE_ONE:
        return dp.change_one_distance()
    return dp.user_distance(f"{adjacency.value}, {receipt.unit}")


def _output(dp: Any, receipt: Guarantee, measure: str) -> tuple[Any, Any]:
    """Return the measure, and what neighbours cost in it."""
    if measure in ("auto", "zcdp"):
        try:
            rho = 0.5 * GaussianAccountant().mu(receipt.event) ** 2 * _UP
        except AccountingError as error:
            if measure == "zcdp":
                raise AccountingError(f"zCDP is for Gaussian releases only: {error}") from None
        else:
            return dp.zero_concentrated_divergence(), rho
    if measure == "renyi":
        return dp.renyi_divergence(), lambda order: float(RenyiAccountant((order,)).divergences(receipt.event)[0])
    return dp.approximate(dp.max_divergence()), (receipt.epsilon, receipt.delta)


def _no_run(_: Any) -> Any:
    raise ValueError(
        "this measurement carries the promise of a release that was made already, and makes none: "
        "give to_opendp(run=...), a function that makes the same run on a table."
    )
