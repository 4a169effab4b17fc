"""A server of private set intersection that lies is caught by decoys, with the chance that the page states.

The liar knows some people of the client. It lets points of the request be found that it does not hold: it answers each
of them with a power of one point that it hopes is one of its people's, and sets that person up under the same powers.
What is measured here takes the hope as fulfilled, so that no bad luck of the liar's is taken for the work of decoys.
"""

import math

import numpy as np
import pytest
from scipy.stats import binom

from sottovoce.exceptions import DataError, PartyError
from sottovoce.vertical import InProcessParties, Party
from sottovoce.vertical.alignment import align_over
from sottovoce.vertical.mechanisms import ANSWERS_TO
from sottovoce.vertical.requests import alignment as roles
from sottovoce.vertical.requests.alignment import AlignTo, Intersect
from sottovoce.vertical.requests.general import Describe, Description
from sottovoce.vertical.wire import Frame, Payload, decode
from support.party import Line

library = pytest.importorskip(
    "private_set_intersection.python", reason="the package openmined-psi (extra [vertical]) is not installed"
)
KNOWN = "patient-0"


class Liar:
    """A server that knows one person, and which point of the request is that person's, and lets others be found too.

    Parameters
    ----------
    n_targets : int
        Points beside that one.
    place : int
        Of the person's point in the request.
    """

    def __init__(self, n_targets, place, rng):
        self.place, self.rng = place, rng
        self.ciphers = [library.server.CreateWithNewKey(True) for _ in range(n_targets + 1)]
        self.nothing = library.server.CreateWithNewKey(True)  # for points that shall not be found

    def setup(self):
        out = library.ServerSetup()
        out.raw.encrypted_elements.extend(sorted(
            cipher.CreateSetupMessage(0.0, 1, [KNOWN], library.DataStructure.RAW).raw.encrypted_elements[0]
            for cipher in self.ciphers
        ))  # fmt: skip
        return out.SerializeToString()

    def respond(self, request):
        points = list(library.Request.FromString(request).encrypted_elements)
        others = [place for place in range(len(points)) if place != self.place]
        targets = [self.place, *self.rng.choice(others, len(self.ciphers) - 1, replace=False)]
        answers = self._powers(self.nothing, points)
        for cipher, target in zip(self.ciphers, targets, strict=True):
            answers[target] = self._powers(cipher, [points[self.place]])[0]
        answer = library.Response()
        answer.encrypted_elements.extend(answers)
        return answer.SerializeToString()

    @staticmethod
    def _powers(cipher, points):
        asked = library.Request(reveal_intersection=True)
        asked.encrypted_elements.extend(points)
        return list(cipher.ProcessRequest(asked).encrypted_elements)


def told_falsely(n_people, n_targets, rng):
    """Return how many people a liar is told of that it does not hold, None where it is caught."""
    client = roles.PsiClient([f"patient-{k}" for k in range(n_people)])
    liar = Liar(n_targets, client._order.index(0), rng)
    try:
        return len(client.intersect(liar.setup(), liar.respond(client.request()))) - 1
    except DataError as error:
        assert "made up for this request" in str(error)
        return None


# The client's order is the operating system's: two tails of 1e-5 for each of 5 shares fail once in 10^4 runs
@pytest.mark.parametrize(
    "share", [0.1, 0.5, *(pytest.param(one, marks=pytest.mark.slow) for one in (1 / 31, 0.25, 1.0))]
)
def test_who_maps_a_share_of_the_points_survives_as_stated(monkeypatch, share):
    """With 24 people and 8 decoys: C(31 - t, 8) / C(31, 8) <= (1 - f)^8."""
    n_people, n_decoys, trials = 24, 8, max(30, round(6 / share))
    monkeypatch.setattr(roles, "decoys_for", lambda n: n_decoys)
    others = n_people + n_decoys - 1
    n_targets = round(share * others)
    rng = np.random.default_rng(round(1000 * share))
    told = [told_falsely(n_people, n_targets, rng) for _ in range(trials)]
    assert set(told) <= {None, n_targets}
    survived = sum(each is not None for each in told)
    exact = math.comb(others - n_targets, n_decoys) / math.comb(others, n_decoys)
    assert exact <= (1.0 - n_targets / others) ** n_decoys + 1e-12
    tails = binom.cdf(survived, trials, exact), binom.sf(survived - 1, trials, exact)
    assert min(tails) > 1e-5, (survived, trials, exact)


@pytest.mark.parametrize("n_people", [1, 2, 7, 50, 100, 999, 5_000, 30_000, 10**6, 4 * 10**6])
def test_fewer_than_two_people_are_told_falsely_on_average(n_people):
    """However many points the liar maps: the exact value at every number of them is below the page's closed form."""
    decoys = roles.decoys_for(n_people)
    points = n_people + decoys
    targets = np.unique(np.geomspace(1, n_people, 400).astype(int))
    log = [math.lgamma(points - t + 1) - math.lgamma(points - t - decoys + 1) for t in targets]
    exact = targets * np.exp(np.array(log) - math.lgamma(points + 1) + math.lgamma(points - decoys + 1))
    stated = points / (decoys + 1) * (1.0 + 1.0 / decoys) ** -decoys
    assert exact.max() <= stated * (1 + 1e-6) < 2.0


def test_a_liar_that_takes_all_is_told_of_nobody():
    """The attack that took every identifier: all points are powers of one that the liar hopes to know."""
    rng = np.random.default_rng(1)
    ids = [f"patient-{rng.integers(10**12):012d}" for _ in range(200)]
    n_points = 200 + roles.decoys_for(200)
    ciphers = [library.server.CreateWithNewKey(True) for _ in range(n_points)]
    heard = []

    class LyingParty(Party):
        def handle(self, raw):
            request = decode(Frame.read(raw).body, ANSWERS_TO)
            if isinstance(request, Intersect):
                setup, answer = library.ServerSetup(), library.Response()
                setup.raw.encrypted_elements.extend(sorted(
                    point
                    for cipher in ciphers
                    for point in cipher.CreateSetupMessage(
                        0.0, 1, [held], library.DataStructure.RAW
                    ).raw.encrypted_elements
                ))  # fmt: skip
                # the luckiest one: it knows which point is that of the person whom it holds
                points = list(library.Request.FromString(request.points).encrypted_elements)
                place = client_of[0]._order.index(ids.index(held))
                answer.encrypted_elements.extend(Liar._powers(each, [points[place]])[0] for each in ciphers)
                first, second = setup.SerializeToString(), answer.SerializeToString()
                return Payload([len(first)], first + second).encode()
            if isinstance(request, AlignTo):
                heard.append(request)
            return super().handle(raw)

    held = ids[int(rng.integers(200))]
    client_of = []
    made = roles.PsiClient.__init__

    def noted(self, identifiers):
        made(self, identifiers)
        client_of[:] = [self]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roles.PsiClient, "__init__", noted)
        hospital = Party(np.zeros((200, 1)), ids=ids, name="hospital")
        liar = LyingParty(np.zeros((n_points, 1)), ids=[held, *map(str, range(n_points - 1))], name="liar")
        with pytest.raises(PartyError, match="party 'liar' sent what is no part of an intersection: it says that it"):
            align_over(InProcessParties([hospital, liar]), client="hospital")
    assert heard == []
    assert hospital.alignment is None


def parties(mine, theirs, *, least=1, least_there=1):
    return [
        Party(np.zeros((len(mine), 1)), ids=mine, name="hospital", least_people=least),
        Party(np.zeros((len(theirs), 1)), ids=theirs, name="clinic", least_people=least_there),
    ]


def recorded(given):
    """Return what the second party is asked in an alignment that fails."""
    asked = []

    class Recording(Party):
        def handle(self, raw):
            asked.append(type(decode(Frame.read(raw).body, ANSWERS_TO)))
            return super().handle(raw)

    given[1].__class__ = Recording
    with pytest.raises((DataError, PartyError)) as caught:
        align_over(InProcessParties(given), client="hospital")
    return asked, str(caught.value)


def test_few_people_are_not_asked_about():
    """By the client, before it asks; by the server, before it answers."""
    people = [f"p{k}" for k in range(60)]
    asked, said = recorded(parties(people[:9], people, least=10))
    assert Intersect not in asked
    assert "asked nobody" in said
    asked, said = recorded(parties(people, people[:9], least=10))
    assert Intersect in asked
    assert AlignTo not in asked
    asked, said = recorded(parties(people[:9], people, least_there=10))
    assert AlignTo not in asked
    assert "it is asked about at least 10 people at once, 140 points with the decoys; these are 139" in said


def test_points_are_not_repeated_to_look_like_more_people():
    pytest.importorskip("private_set_intersection.python")
    clinic = parties(["x"], [f"p{k}" for k in range(60)], least_there=50)[1]
    request = library.Request.FromString(roles.PsiClient(["p7"]).request())
    request.encrypted_elements.extend([request.encrypted_elements[0]] * 100)
    line = Line(clinic)
    assert "190 points with the decoys; these are 129" in line.ask(Intersect(request.SerializeToString())).reason


def test_a_setup_is_no_larger_than_the_table_that_was_described():
    """Also where the party is aligned to few of its rows: it says how many it has in all."""
    people = [f"p{k}" for k in range(300)]
    given = parties(people[:20], people)
    align_over(InProcessParties(given), client="hospital")
    assert Line(given[1]).ask(Describe()).n_rows == 20
    assert align_over(InProcessParties(given), client="hospital").n_common == 20

    class Small(Party):
        def handle(self, raw):
            answer = super().handle(raw)
            if isinstance(decode(Frame.read(raw).body, ANSWERS_TO), Describe):
                said = decode(answer, (Description,))
                answer = Description(said.n_rows, said.n_features, said.data_norm, 0, said.data_bound, 270).encode()
            return answer

    given[1].__class__ = Small
    with pytest.raises(PartyError, match=r"party 'clinic' sent .*: the setup message has .* more than 290 people need"):
        align_over(InProcessParties(given), client="hospital")
