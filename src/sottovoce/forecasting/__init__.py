"""How good a private model to expect, before there are any data: made-up tables, fits to them, the forecast."""

from sottovoce.forecasting.forecast import Expected, Forecast, forecast

__all__ = ["Expected", "Forecast", "forecast"]
