"""The fixture that forbids noise stops every mechanism: without this, a test of a refusal could not fail."""

import math

import numpy as np
import pytest

import sottovoce as sv
from sottovoce.papers.ldp import BernsteinProtocol, bernstein_reports
from support.noise import NoiseOpenedError
from support.pairs import every_second
from support.receipts import PRIVATE, table

pytestmark = pytest.mark.usefixtures("coarse_losses")
X = table()[0]
POLYNOMIAL = BernsteinProtocol(loss="hinge", n_features=4, epsilon=64.0, delta=1e-5, degree=2)
DRAWING = PRIVATE | {"Bernstein reports": lambda: bernstein_reports(POLYNOMIAL, 0.5 * X[:1], [1])}


@pytest.mark.filterwarnings("ignore::sottovoce.exceptions.SottovoceWarning")
@pytest.mark.parametrize("name", every_second(DRAWING))
def test_it_stops_every_mechanism(name, noise_is_forbidden):
    with pytest.raises(NoiseOpenedError):
        DRAWING[name]()


def test_it_lets_through_what_draws_none(noise_is_forbidden):
    sv.DPLogisticRegression(epsilon=math.inf, data_norm=1.0, classes=[0, 1]).fit(X, np.arange(len(X)) % 2)
