"""Events of others: dp_accounting's accountants agree with ours, and what has no equal there is refused in words."""

import math
import warnings

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

from sottovoce.exceptions import AccountingError, ParameterError
from sottovoce.privacy.accounting import RenyiAccountant, accountant_for
from sottovoce.privacy.adjacency import ROW_UNIT
from sottovoce.privacy.events import (
    BoundedRangeEvent,
    ComposedEvent,
    GaussianEvent,
    NonPrivateEvent,
    NothingReleased,
    PoissonSampledEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
)
from sottovoce.privacy.receipts import make_receipt

DELTA = 1e-5
GAUSSIAN = GaussianEvent(8.0)
FIT = ComposedEvent((GaussianEvent(20.0), RepeatedEvent(GaussianEvent(60.0), 50)))
SAMPLED = RepeatedEvent(PoissonSampledEvent(0.02, GaussianEvent(1.5)), 200)
SEARCH = RepeatAndSelectEvent(FIT, 5.0)
PURE = ComposedEvent((PureEvent(0.1), RepeatedEvent(RandomizedResponseEvent(0.2), 10)))
SELECTIONS = RepeatedEvent(BoundedRangeEvent(0.05), 200)


def receipt(event, *, adjacency="zero-out", unit=ROW_UNIT, delta=DELTA, seeded=False):
    return make_receipt(
        epsilon=accountant_for(event).epsilon(event, delta), delta=delta, adjacency=adjacency, unit=unit,
        mechanism="m", releases=("a vector",), event=event, assumptions=(), not_covered=(), parameters={},
        seeded=seeded, proof="docs/privacy/README.md",
    )  # fmt: skip


def theirs(accountant, event, delta=DELTA):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the grid of orders
        return accountant.compose(event).get_epsilon(delta)


@pytest.mark.parametrize("event", [GAUSSIAN, FIT, SAMPLED], ids=["one", "fit", "sampled"])
def test_loss_distributions_agree(event):
    ours = receipt(event)
    epsilon = theirs(PLDAccountant(), ours.to_dp_event())
    assert ours.epsilon * (1 - 1e-6) <= epsilon <= ours.epsilon * 1.01


@pytest.mark.parametrize("event", [GAUSSIAN, FIT, SAMPLED, SEARCH], ids=["one", "fit", "sampled", "search"])
def test_renyi_is_not_below_ours(event):
    ours = receipt(event)
    assert ours.epsilon * (1 - 1e-6) <= theirs(RdpAccountant(), ours.to_dp_event()) <= 2.0 * ours.epsilon


@pytest.mark.parametrize("event", [PURE, SELECTIONS], ids=["pure", "selections"])
def test_what_has_no_equal_is_given_as_more(event):
    ours = receipt(event)
    with pytest.raises(AccountingError, match=r"no event that is equal to .* conservative=True gives a zCDP event"):
        ours.to_dp_event()
    epsilon = theirs(RdpAccountant(), ours.to_dp_event(conservative=True))
    assert ours.epsilon <= epsilon <= 3.0 * ours.epsilon
    # at every order, not only at one delta
    orders = (1.5, 2.0, 8.0, 64.0)
    accountant = RdpAccountant(list(orders))
    accountant.compose(ours.to_dp_event(conservative=True))
    assert (accountant._rdp >= RenyiAccountant(orders).divergences(event)).all()


@pytest.mark.parametrize("kind", [PureEvent, RandomizedResponseEvent, BoundedRangeEvent])
def test_concentrated_dp_covers_every_order_and_small_releases_reach_it(kind):
    orders = np.array([1.0 + 1e-6, 1.5, 2.0, 8.0, 64.0])
    for epsilon in (1e-5, *np.geomspace(1e-4, 20.0, 50)):
        ((release, _),) = kind(epsilon).basics()
        rho, ours = kind(epsilon).to_dp_event(True).rho, release.divergences(orders) / orders
        assert ours.max() <= rho * (1.0 - 2.0**-44)  # room for what the divergences themselves are rounded by
        assert epsilon > 1e-5 or ours.max() == pytest.approx(rho, rel=1e-6)


def test_ends():
    assert receipt(NothingReleased()).to_dp_event() == dp_event.NoOpDpEvent()
    assert receipt(NonPrivateEvent()).to_dp_event() == dp_event.NonPrivateDpEvent()
    assert receipt(GaussianEvent(math.inf)).to_dp_event() == dp_event.NoOpDpEvent()
    for sampled in (PoissonSampledEvent(0.0, GAUSSIAN), PoissonSampledEvent(0.5, GaussianEvent(math.inf))):
        assert receipt(sampled).to_dp_event() == dp_event.NoOpDpEvent()
    assert receipt(RepeatAndSelectEvent(GAUSSIAN, 1.0)).to_dp_event() == dp_event.GaussianDpEvent(8.0)
    geometric = dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(8.0), 5.0, 1.0)
    assert receipt(RepeatAndSelectEvent(GAUSSIAN, 5.0)).to_dp_event() == geometric
    assert theirs(PLDAccountant(), receipt(GaussianEvent(1e300)).to_dp_event()) < 1e-3
    with pytest.raises(ParameterError, match="conservative must be True or False; got 'yes'"):
        receipt(GAUSSIAN).to_dp_event(conservative="yes")
