"""Every release of every solver that takes groups, on tables that differ in a whole person.

Recorded on the one and replayed on the other, as in ``test_grey_box``: the exact values that go into the mechanisms
differ by what each was told, at most, and nothing else differs.
"""

import numpy as np
import pytest

from sottovoce.privacy.accounting import accountant_for
from support.grey_box import ALL, PERSON_CASES, persons_compared

PAIRS = 5


@pytest.mark.parametrize("adjacency", ALL)
@pytest.mark.parametrize("case", PERSON_CASES, ids=lambda case: case.name)
def test_every_solver(case, adjacency):
    rng = np.random.default_rng([PERSON_CASES.index(case), ALL.index(adjacency), 7])
    largest = 0.0
    for seed in range(PAIRS):
        found = persons_compared(case, adjacency, rng, seed)
        assert found.fault == ""
        assert found.refusal == ""
        assert found.largest <= 1.0
        assert found.n_releases
        assert found.tape.draws == ()
        # what the mechanisms cost together is what the receipt says
        spent, delta = found.tape.event, 1e-6
        promised = accountant_for(found.shown["event"]).epsilon(found.shown["event"], delta)
        assert accountant_for(spent).epsilon(spent, delta) <= promised * (1.0 + 1e-9)
        largest = max(largest, found.largest)
    assert largest > 0.4 * case.reached  # the stated sensitivity is nearly what happens
