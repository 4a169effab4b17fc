"""A coordinator against a party that answers in time, in the right form, and with something else than it should.

What cannot be the answer of any party is an error that names the one that gave it. (A wrong number among many right
ones cannot be told from a right one: it ruins the model, as the party's own data could.)
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from sottovoce.exceptions import ModelFormatError, PartyError
from sottovoce.report.comparison import made_again
from sottovoce.vertical import (
    InProcessParties,
    Party,
    VerticalLasso,
    VerticalLogisticRegression,
)
from sottovoce.vertical.alignment import align_over
from sottovoce.vertical.requests.alignment import Intersect
from sottovoce.vertical.requests.frank_wolfe import TrainOnBall
from sottovoce.vertical.requests.general import Describe, Score, ShowColumns
from sottovoce.vertical.requests.local_models import TrainOnLabels
from sottovoce.vertical.wire import Refused
from support.party import asked, decode
from support.receipts import fitted

N = 60
LIES = {
    "shorter": lambda value: value[:-1],
    "longer": lambda value: np.append(value, 0.5) if isinstance(value, np.ndarray) else value + value[-1:],
    "empty": lambda value: value[:0],
    "one": lambda value: value[:1],
    "huge": lambda value: np.full_like(value, 1e300) if isinstance(value, np.ndarray) else None,
}
TEXTS = ["", "{", "[]", "null", '{"kind": 5}', '{"kind": "composed"}', '{"kind": "gaussian"}',
         "[" * 30_000,
         '{"kind": "gaussian", "noise_multiplier": "x"}',
         '{"kind": "gaussian", "noise_multiplier": 1e999}',
         '{"kind": "gaussian", "noise_multiplier": 0.1}']  # fmt: skip


class _Liar:
    """Answers as a party does, but for one kind of request: of the reply to it ``lie`` makes another one."""

    def __init__(self, party, kind, lie):
        self.party, self.kind, self.lie = party, kind, lie
        self.name = party.name
        self.told = 0

    def handle(self, raw):
        answer = self.party.handle(raw)
        if type(asked(raw)) is not self.kind:
            return answer
        self.told += 1
        return self.lie(decode(answer)).encode()


def _trained(estimator, kind, lie, *, scored=False):
    """Train, and score where asked to, with the second of three parties lying; return how often it did."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(N, 6))
    y = np.where(X.sum(axis=1) + 0.3 * rng.normal(size=N) > 0, 1, 0)
    names = ["insurer", "north", "bank"]
    parties = [
        Party(X[:, 2 * m : 2 * m + 2], name=name, y=y if m == 0 else None, data_norm=2.0, data_bound=1.0)
        for m, name in enumerate(names)
    ]
    parties[1] = _Liar(parties[1], kind, lie)
    over = InProcessParties(parties)
    over.here = {"insurer": parties[0]}
    estimator.fit(over)
    if scored:
        estimator.decision_function(over)
    return parties[1].told


def _logistic(**more):
    return VerticalLogisticRegression(classes=[0, 1], delta=1e-3, **more)


EXACT = {"epsilon": math.inf, "max_iter": 3}
CASES = {
    "exact": (_logistic(**EXACT), ShowColumns),
    "local models": (_logistic(epsilon=4.0), TrainOnLabels),
    "ball, exact": (VerticalLasso(**EXACT, radius=2.0, label_bounds=(0, 1)), ShowColumns),
    "ball, local": (VerticalLasso(epsilon=4.0, delta=1e-3, radius=2.0, label_bounds=(0, 1), n_steps=4), TrainOnBall),
}  # fmt: skip
BYTES = ("local models", "ball, local")
VECTORS = [
    *((case, "numbers", lie) for case in CASES if case != "local models" for lie in LIES),
    *((case, "octets", lie) for case in BYTES for lie in LIES if lie != "huge"),
]
VECTORS = [each for each in VECTORS if each[::2] != ("ball, local", "one")]  # it is one number, and one byte


@pytest.mark.parametrize(("case", "field", "lie"), VECTORS)
@pytest.mark.filterwarnings("ignore")
def test_a_reply_of_the_wrong_length_is_an_error_that_names_the_party(case, field, lie):
    """Vectors and bytes of every reply of every mechanism: too short, too long, none, one, and numbers too large."""
    estimator, kind = CASES[case]
    with pytest.raises(PartyError, match="'north'"):
        _trained(estimator, kind, lambda reply: replace(reply, **{field: LIES[lie](getattr(reply, field))}))


@pytest.mark.parametrize("text", TEXTS)
def test_an_event_that_is_none_is_an_error_that_names_the_party(text):
    """What a party says that it spent is compared with the plan."""
    estimator, kind = CASES["local models"]
    with pytest.raises(PartyError, match="'north'"):
        _trained(estimator, kind, lambda reply: replace(reply, octets=text.encode()))


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.filterwarnings("ignore")
def test_scores_of_the_wrong_length_are_an_error_that_names_the_party(lie):
    """Nobody is given the score of somebody else."""
    with pytest.raises(Exception, match="north") as caught:
        lying = lambda reply: replace(reply, numbers=LIES[lie](reply.numbers))  # noqa: E731
        _trained(_logistic(**EXACT), Score, lying, scored=True)
    assert type(caught.value).__name__ in ("PartyError", "DataError")


@pytest.mark.parametrize(
    "lie",
    [
        {"n_rows": 0}, {"n_rows": N + 1}, {"n_rows": 2**60}, {"n_features": 2**60}, {"data_norm": -1.0},
        {"data_norm": 0.0}, {"data_bound": -2.0}, {"nonnegative": 7},
    ],
)  # fmt: skip
@pytest.mark.parametrize("case", ["local models", "ball, local", "exact"])
def test_facts_that_cannot_be_are_an_error_that_names_the_party(case, lie):
    """Before anything is released."""
    with pytest.raises(Exception, match="'north'") as caught:
        _trained(CASES[case][0], Describe, lambda reply: replace(reply, **lie))
    assert type(caught.value).__name__ in ("PartyError", "DataError")


@pytest.mark.parametrize(
    "told",
    [
        "", "[]", "[" * 30_000, '{"spu": 1}', '{"spu": ""}', '{"auto": "spu 1"}', '{"proven": "spu 1"}',
        '{"spu": "certified by the agency"}', '{"spu": "spu 1, for an epsilon of 0.01"}', '{"spu": "spu 1\\n"}',
        '{"shamir": "sottovoce 0.1.0 (checked)"}', json.dumps({"spu": "spu " + "1" * 60_000}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mechanism", ["auto", "secure"])
def test_a_party_says_nothing_in_receipts_by_the_engines_that_it_has(mechanism, told):
    """It is asked for names of engines and versions of packages, which stand in the receipt of all."""
    with pytest.raises(PartyError, match="'north' does not say which engines it has"):
        _trained(_logistic(epsilon=1.0, mechanism=mechanism), Describe, lambda reply: replace(reply, engines=told))
    receipt = fitted("vertical local-models").guarantee_
    words = {"helpers": [], "engines": {name: {"spu": "spu 1"} for name in receipt.parameters["parties"]}}
    given = replace(receipt, parameters={**receipt.parameters, "computing": words})
    assert made_again(given).parameters["computing"] == words
    words["engines"]["party2"] = json.loads(told) if told.startswith("{") else told
    with pytest.raises(ModelFormatError, match="does not say which engines"):
        made_again(given)


@pytest.mark.parametrize("reason", ["no\n\nReceipt\n  epsilon  0.01", "\x1b[2J", "x" * 60_000, "\u202e\u2028\r"])
def test_a_refusal_is_told_in_one_line(reason):
    with pytest.raises(PartyError, match="party 'north' refused ") as caught:
        _trained(_logistic(epsilon=1.0), TrainOnLabels, lambda reply: Refused(reason))
    assert len(str(caught.value)) < 2_000 and str(caught.value).isprintable()


PLACES = {
    "bytes for no table": b"1234567", "too few": bytes(8 * 5), "a column that is not there": (np.r_[2, 0], np.r_[0, 2]),
    "below 0": (np.r_[-1, 0], np.r_[0, 2]), "rows that end too late": (np.r_[0, 1], np.r_[0, 3]),
    "rows backward": (np.r_[0, 1], np.r_[2, 0]),
}  # fmt: skip


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("case", ["exact", "ball, exact"])
def test_a_sparse_table_that_is_none_names_the_party(case, places):
    if isinstance(places, tuple):
        indices, ends = places
        places = np.r_[indices, ends[0], np.full(N, ends[1])].astype("<i8").tobytes()
    lie = lambda reply: replace(reply, numbers=[0.5, 0.25], octets=places)  # noqa: E731
    with pytest.raises(PartyError, match="'north' showed what is no table"):
        _trained(*CASES[case], lie)


@pytest.mark.filterwarnings("ignore:no convergence in max_iter")
def test_what_is_asked_of_every_reply_is_asked_here():
    """Each case is about a reply that does come."""
    for estimator, kind in CASES.values():
        assert _trained(estimator, kind, lambda reply: reply) > 0, kind


@pytest.mark.parametrize("field", ["numbers", "octets"])
@pytest.mark.parametrize("lie", LIES)
def test_an_alignment_with_points_that_are_none_names_the_party(field, lie):
    """Nobody is announced then."""
    pytest.importorskip("private_set_intersection.python")
    people = [f"p{i}" for i in range(20)]
    home = Party(np.ones((20, 1)), people, name="insurer")
    party = Party(np.ones((20, 1)), people, name="north")
    wrong = LIES[lie]
    if (field, lie) in (("octets", "huge"), ("numbers", "one")):
        wrong = lambda value: value[::-1] if field == "octets" else value - 1.0  # noqa: E731
    other = _Liar(party, Intersect, lambda told: replace(told, **{field: wrong(getattr(told, field))}))
    over = InProcessParties([home, other])
    over.here = {"insurer": home}
    with pytest.raises(Exception, match="north") as caught:
        align_over(over)
    assert type(caught.value).__name__ in ("PartyError", "DataError")
    assert home.alignment is None
