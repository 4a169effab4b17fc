"""Accountants that others wrote, and that share no line with ours, nor with dp-accounting: what do they find?

`prv_accountant` (Gopi, Lee, Wutschitz 2021, arXiv:2106.02848) composes privacy losses numerically and certifies a lower
and an upper bound; `autodp` has Renyi divergences and the exact Gaussian curve. Both run by ``make recipes``.
"""

import math

import numpy as np
import pytest

from sottovoce.privacy.accounting import GaussianAccountant, PLDAccountant, RenyiAccountant, accountant_for
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    ComposedEvent,
    GaussianEvent,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
)

CERTIFIED = 0.01  # in epsilon, each way; where losses are continuous, their estimate is right to a tenth of it
ORDERS = (2.0, 3.0, 8.0, 17.0, 32.0)  # between whole orders autodp takes the next one where rows are sampled

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of autodp's search for the best order


def step(rate, noise):
    return PoissonSampledEvent(rate, GaussianEvent(noise))


RUNS = {
    "a release": ((GaussianEvent(0.5), 1),),
    "releases": ((GaussianEvent(4.0), 16),),
    "two kinds of releases": ((GaussianEvent(30.0), 200), (GaussianEvent(2.0), 3)),
    "sampled": ((step(0.01, 1.0), 1000),),
    "sampled, little noise": ((step(0.001, 0.6), 2000),),
    "sampled, often": ((step(0.5, 0.8), 2),),
    "sampled and not": ((step(0.1, 2.0), 40), (step(0.02, 1.2), 100), (GaussianEvent(4.0), 2)),
    "responses": ((RandomizedResponseEvent(0.3), 20),),
    "two kinds of responses": ((RandomizedResponseEvent(1.0), 3), (RandomizedResponseEvent(0.15), 30)),
    "pure releases": ((PureEvent(0.5), 8),),
    "responses and releases": ((RandomizedResponseEvent(1.0), 2), (GaussianEvent(3.0), 4)),
    "of everything": ((step(0.05, 1.5), 100), (GaussianEvent(5.0), 3), (RandomizedResponseEvent(0.1), 6)),
}
each_run = pytest.mark.parametrize("parts", [pytest.param(value, id=key) for key, value in RUNS.items()])
each_delta = pytest.mark.parametrize("delta", [1e-3, 1e-6])


def composed(parts):
    return ComposedEvent(tuple(RepeatedEvent(event, times) for event, times in parts))


def ours(event, delta):
    return accountant_for(event).epsilon(event, delta)


@pytest.fixture(scope="module")
def prv():
    return pytest.importorskip("prv_accountant", reason="prv-accountant is not installed: `make recipes` has it")


@pytest.fixture(scope="module")
def autodp():
    pytest.importorskip("autodp", reason="autodp is not installed: `make recipes` has it")
    from autodp import mechanism_zoo, transformer_zoo

    return mechanism_zoo, transformer_zoo


def prv_of(prv, event):
    losses = prv.privacy_random_variables
    match event:
        case GaussianEvent():
            return losses.GaussianMechanism(event.noise_multiplier)
        case PoissonSampledEvent():
            return losses.PoissonSubsampledGaussianMechanism(event.sampling_rate, event.event.noise_multiplier)
        case RandomizedResponseEvent() | PureEvent():
            return losses.PureDPMechanism(event.epsilon)


def certified(prv, losses, counts, delta):
    """Return their lower bound on epsilon, their estimate and their upper bound."""
    accountant = prv.PRVAccountant(losses, CERTIFIED, delta / 1000, list(counts))
    return accountant.compute_epsilon(delta, list(counts))


@each_run
@each_delta
def test_ours_is_within_certified_bounds(prv, parts, delta):
    lower, estimate, upper = certified(prv, [prv_of(prv, event) for event, _ in parts], [n for _, n in parts], delta)
    found = ours(composed(parts), delta)
    assert lower <= found <= upper
    if all(isinstance(event, GaussianEvent | PoissonSampledEvent) for event, _ in parts):
        assert found == pytest.approx(estimate, abs=CERTIFIED / 10)
    for looser in (PLDAccountant(1e-3), RenyiAccountant()):
        assert lower <= looser.epsilon(composed(parts), delta)


def test_the_comparison_sees_a_twentieth_of_the_noise(prv):
    """Else it would say nothing: who adds 5 % less noise than is accounted is below the certified bound."""
    for event, less in ((GaussianEvent(4.0), GaussianEvent(3.8)), (step(0.05, 1.5), step(0.05, 1.425))):
        lower, *_ = certified(prv, [prv_of(prv, less)], [64], 1e-6)
        assert ours(RepeatedEvent(event, 64), 1e-6) < lower


@each_delta
@pytest.mark.parametrize(("epsilon", "times"), [(0.5, 8), (0.1, 100), (2.0, 2)])
def test_laplace_noise_is_covered_by_what_dominates_it(prv, epsilon, times, delta):
    lower, *_ = certified(prv, [prv.privacy_random_variables.LaplaceMechanism(epsilon)], [times], delta)
    assert lower <= ours(RepeatedEvent(PureEvent(epsilon), times), delta) <= times * epsilon


@each_delta
@pytest.mark.parametrize(("width", "times"), [(0.4, 30), (0.2, 100), (0.05, 400)])
@pytest.mark.parametrize("noise", [None, 3.0])
def test_selections_cost_at_least_responses_in_the_middle_of_their_window(prv, width, times, noise, delta):
    """A window may be [-width/2, width/2] each time; that windows may be chosen adaptively costs a little more here."""
    selection, response = BoundedRangeEvent(width), RandomizedResponseEvent(width / 2)
    beside = () if noise is None else ((GaussianEvent(noise), 1),)
    losses = [prv_of(prv, event) for event, _ in ((response, times), *beside)]
    lower, estimate, _ = certified(prv, losses, [times, *(n for _, n in beside)], delta)
    assert lower <= ours(composed(((selection, times), *beside)), delta) <= 1.1 * estimate


# --- autodp -----------------------------------------------------------------------------------------------------------


def autodp_of(autodp, event):
    mechanisms, transformers = autodp
    match event:
        case GaussianEvent():
            return mechanisms.GaussianMechanism(event.noise_multiplier)
        case RandomizedResponseEvent() | PureEvent():
            return mechanisms.RandresponseMechanism(1.0 / (1.0 + math.exp(-event.epsilon)))
        case PoissonSampledEvent():
            sampled = transformers.AmplificationBySampling(PoissonSampling=True)
            return sampled(autodp_of(autodp, event.event), event.sampling_rate, improved_bound_flag=True)


@each_run
def test_renyi_divergences_are_theirs_rounded_up(autodp, parts):
    theirs = autodp[1].Composition()([autodp_of(autodp, event) for event, _ in parts], [n for _, n in parts])
    divergences = np.array([float(theirs.get_RDP(order)) for order in ORDERS])
    found = RenyiAccountant(ORDERS).divergences(composed(parts))
    assert (found >= divergences).all()
    assert found == pytest.approx(divergences, rel=1e-11)
    for delta in (1e-3, 1e-6):  # and the tightest accountant is not above the epsilon that they make of them
        assert ours(composed(parts), delta) <= float(theirs.get_approxDP(delta)) * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("releases", [((4.0, 16), (2.0, 3)), ((0.7, 1),), ((50.0, 1000),)])
def test_the_exact_gaussian_curve(autodp, releases, delta):
    mechanisms, transformers = autodp
    parts = [mechanisms.GaussianMechanism(noise) for noise, _ in releases]
    theirs = float(transformers.ComposeGaussian()(parts, [times for _, times in releases]).get_approxDP(delta))
    event = composed([(GaussianEvent(noise), times) for noise, times in releases])
    assert GaussianAccountant().epsilon(event, delta) == pytest.approx(theirs, rel=1e-9)
