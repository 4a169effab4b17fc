"""The plan of the secure choice: its text, its whole numbers, its noise, and what one person can move."""

from fractions import Fraction

import numpy as np
import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.losses import Logistic
from sottovoce.privacy.accounting import accountant_for
from sottovoce.vertical.engines.engine import EngineError
from sottovoce.vertical.secure import agreed_plan, column_plan
from sottovoce.vertical.secure.agreed_plan import Block
from sottovoce.vertical.secure.column_plan import ColumnPlan
from support.lockstep import CountingEngine, run_jointly

SQUARED = {"loss": "squared", "label_bounds": (-1.0, 3.0)}
LOGISTIC = {"loss": "logistic"}
BOTH = pytest.mark.parametrize("kind", [SQUARED, LOGISTIC], ids=["squared", "logistic"])


def plan(**changed):
    facts = {
        "n_samples": 200, "blocks": (Block("a", 3, 2.0), Block("b", 2, 0.5)), "helpers": ("h",),
        "label_holder": "b", "radius": 1.5, "epsilon": 1.0, "delta": 1e-5, "engine": "in-process", **SQUARED,
    }  # fmt: skip
    if changed.get("loss") == "logistic":
        changed = {"label_bounds": None, **changed}
    return ColumnPlan(**{**facts, **changed})


# --- the text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"engine": "shamir"}, "engine='shamir' cannot compare"),
        ({"engine": "semi2k"}, "engine"),
        ({"engine": "spu", "helpers": ("h", "g")}, "takes 2 to 3 parties"),
        ({"loss": "smoothed hinge"}, "loss"),
        ({"label_holder": "h"}, "label_holder must be a party with columns"),
        ({"helpers": ("a",)}, "names of their own"),
        ({"blocks": (Block("a", 3, 1.0),), "label_holder": "a"}, "at least two parties"),
        ({"epsilon": np.inf}, "epsilon must be finite"),
        ({"n_samples": 2**26}, "entries together"),
        ({"radius": 0.0}, "radius"),
        ({"n_steps_given": 0}, "n_steps"),
        ({"label_bounds": None}, "label_bounds"),
        ({"loss": "logistic", "residual_bound": 1.0}, "for the squared loss"),
        (
            {"epsilon": 1e-4, "delta": 1e-12, "n_steps_given": 10_000, **LOGISTIC},
            "Give a larger epsilon, or fewer steps",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused_in_words(changed, words):
    with pytest.raises(ParameterError, match=words):
        plan(**changed)


# --- noise ------------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 50.0])
def test_the_noise_pays_for_the_scores_and_for_rounding_down(kind, epsilon):
    """Losses of a choice lie in a window of width (4 C E + 4) / scale; the receipt charges at least that."""
    one = plan(epsilon=epsilon, **kind)
    reach = 4 * one.scores.largest * 2**14 + 4
    assert Fraction(reach, one.scale) <= Fraction(one.selection_range)
    assert Fraction(reach, one.scale - 1) > Fraction(one.selection_range)
    assert one.event.event.epsilon == one.selection_range
    assert one.event.count == one.n_choices == one.n_steps + 1
    assert accountant_for(one.event).epsilon(one.event, one.delta) <= epsilon


@BOTH
def test_nobody_moves_a_score_further_than_the_plan_says(kind):
    """Any margins, any rows, any labels: one row adds at most C E to a sum, the intercept's too."""
    one = plan(n_samples=1, **kind)
    rng = np.random.default_rng(0)
    most = one.scores.largest * 2**14
    seen = 0
    for trial in range(300):
        size = 10.0 ** rng.integers(-3, 20)
        tables = [rng.choice([-size, size, np.inf, -0.3], (1, width)) for width in (3, 2)]
        rows = [one.rows(name, table) for name, table in zip("ab", tables, strict=True)]
        y = one.whole_labels(rng.choice([-1e300, 1e300, 0.2, np.nan, 1.0], 1))
        points = [rng.normal(size=3) * 10.0 ** rng.integers(-5, 300) for name in "ab"]
        z = [one.margins(name, row, point) for name, row, point in zip("ab", rows, points, strict=True)]
        if trial % 2:
            z = [np.zeros(1, np.int64)] * 2
        zeros = [np.zeros(width, np.int64) for width in (3, 2, 1)]
        *sums, total = one.scores.in_clear(y, *zeros, *z, *rows)
        scores = np.abs(np.concatenate([*sums, one.constant * total]))
        assert scores.max() <= most
        seen = max(seen, scores.max())
    assert seen >= 0.99 * most


def test_the_units_of_two_parties():
    """Entries are in units of the largest bound, so that the ball is the same in all directions."""
    one = plan()
    assert one.rows("a", np.array([[2.0, -9.0, 1.0]])).tolist() == [[2**14, -(2**14), 2**13]]
    assert one.rows("b", np.array([[0.5, 9.0]])).tolist() == [[2**12, 2**12]]
    assert one.constant == 2**12
    assert one.whole_labels(np.array([3.0, -1.0, 1.0, 99.0, np.nan])).tolist() == [2**14, -(2**14), 0, 2**14, 0]
    # the vertex of a's first column: 1.5 * 2 / 2 in units; an entry of 1 is half of the unit
    z = one.margins("a", one.rows("a", np.array([[1.0, 0.0, 0.0]])), np.array([one.vertex, 0.0, 0.0]))
    assert z.tolist() == [round(0.75 * 2**14)]
    half = plan(residual_bound=1.0)
    assert half.clip == 0.5
    assert half.whole_labels(np.array([3.0])).tolist() == [2**15]


def test_the_link_of_clips_is_near_the_sigmoid():
    one = plan(loss="logistic")
    m = np.linspace(-12.0, 12.0, 2001)
    z = np.rint(m * 2**7).astype(np.int64)
    for label in (1, -1):
        zeros = [np.zeros(len(m), np.int64), np.zeros(1, np.int64)]
        slopes, _ = one.scores.in_clear(np.full(len(m), label), *zeros, z, np.eye(len(m), dtype=np.int64))
        wanted = -Logistic().derivative(np.full(len(m), float(label)), m)
        assert np.abs(slopes / 2**18 - wanted).max() < 0.022


# --- steps ------------------------------------------------------------------------------------------------------------


def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    tables = {"a": rng.uniform(-2, 2, (n, 3)), "b": rng.uniform(-0.5, 0.5, (n, 2))}
    return tables, 1.0 + tables["a"][:, 1] - 0.4 * tables["a"][:, 2] + 0.5 * tables["b"][:, 0]


def by_floats(one, tables, y):
    """Return the places that Frank-Wolfe takes without noise, on the joined table in floating point."""
    X = np.column_stack([tables["a"], tables["b"], np.full(len(y), 0.5)])[:, : one.n_columns]
    w, places = np.zeros(one.n_columns), []
    for _ in range(one.n_choices):
        z = X @ w
        if one.loss == "squared":
            slope = np.clip((np.clip(y, *one.label_bounds) - one.middle - z) / one.label_unit, -one.clip, one.clip)
        else:
            slope = -Logistic().derivative(np.sign(y - 1.0), z)
        scores = X.T @ slope
        places.append(int(np.argmax(np.concatenate([scores, -scores]))))
        column = places[-1] % one.n_columns
        w[column] += (1 if places[-1] < one.n_columns else -1) * one.radius / one.n_choices
    return places, w


@pytest.mark.parametrize(
    "changed",
    [{}, {"fit_intercept": False}, {"residual_bound": 0.5}, LOGISTIC],
    ids=["squared", "no b", "bound", "log"],
)
@pytest.mark.parametrize("pieces", [1, 3])
def test_with_hardly_any_noise_it_is_frank_wolfe_on_the_joined_table(changed, pieces, monkeypatch):
    monkeypatch.setattr(agreed_plan, "PIECE", -(-200 // pieces))
    tables, y = people()
    one = plan(epsilon=1e5, n_steps_given=9, **changed)
    assert one.n_pieces == pieces
    fitting, opened = run_jointly(one, tables, np.sign(y - 1.0) if one.loss == "logistic" else y)
    places, w = by_floats(one, tables, y)
    got = [int(each[0]) for each in opened]
    if one.loss == "logistic":  # another link: steps may change places, and the columns stay
        assert np.abs(np.bincount(np.mod(got, 6), minlength=6) - np.bincount(np.mod(places, 6), minlength=6)).max() <= 1
        return
    assert got == places
    weights = fitting.weights
    np.testing.assert_allclose(np.concatenate([weights["a"][0], weights["b"][0]]), w[:5], atol=1e-12)
    assert weights["a"][1] == 0.0
    assert weights["b"][1] == pytest.approx(0.5 * w[5] if one.fit_intercept else 0.0)


@pytest.mark.parametrize("colluding", [("b", "h"), ("a", "b")])
def test_noise_of_every_party_is_in_the_choice(colluding):
    """One party's draw decides, whatever the others add."""
    tables, y = people()
    one = plan(n_steps_given=1)
    honest = next(name for name in one.ranks if name not in colluding)

    def noise(step, name):
        drawn = np.zeros(2 * one.n_columns, np.int64)
        if name == honest:
            drawn[7] = 2**50
        return (drawn,)

    _, opened = run_jointly(one, tables, y, noise=noise)
    assert opened[0].tolist() == [7.0]


def test_a_place_is_all_that_is_opened():
    import secrets

    tables, y = people()
    one, session = plan(n_steps_given=3), secrets.token_bytes(8)
    engines = [CountingEngine(session, rank, 3) for rank in range(3)]
    _, opened = run_jointly(one, tables, y, engines=engines)
    for engine in engines:
        assert engine.opened == ["opened"] * 3
        assert engine.names == {"rows0.0", "rows1.0", "y.0"}
    assert [each.shape for each in opened] == [(1,)] * 3


@pytest.mark.parametrize("values", [[12.0], [-1.0], [0.5], [np.nan], [1.0, 2.0], []])
def test_what_is_no_place_is_refused(values):
    with pytest.raises(EngineError, match="no place of a column"):
        plan().fitting().take(np.array(values))


def test_the_rule_for_steps_is_that_of_one_table():
    few, many = plan(n_samples=1000), plan(n_samples=10**6)
    assert 4 <= few.n_choices < many.n_choices <= column_plan._MOST_STEPS
    assert plan(n_samples=1000, residual_bound=0.2).n_choices > few.n_choices
    assert plan(n_steps_given=7).n_choices == 7
