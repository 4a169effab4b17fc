"""The fixture that forbids noise stops every mechanism: without this, a test of a refusal could not fail."""

import math

import pytest

import sottovoce as sv
from support.every_fit import FITS, REPORTS, X, Y
from support.noise import NoiseOpenedError


@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.PrivacyWarning")
@pytest.mark.parametrize("name", list(FITS | REPORTS))
def test_it_stops_every_mechanism(name, noise_is_forbidden):
    with pytest.raises(NoiseOpenedError):
        (FITS | REPORTS)[name]()


def test_it_lets_through_what_draws_none(noise_is_forbidden):
    sv.DPLogisticRegression(epsilon=math.inf, data_norm=1.0, classes=[0, 1]).fit(X, Y)
