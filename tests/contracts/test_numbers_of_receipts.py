"""Is the work of verifying a stranger's receipt bounded, whatever numbers are in it?

Work is counted, not timed: how often anything is accounted, how many steps of a run are followed one by one, and how
long the lists and arrays are that a plan makes.
The largest number that is accepted is tried for each option of a solver, and one above it, which is refused in words.
"""

import copy
import json
import tracemalloc

import pytest

from sottovoce.central import newton_schedule
from sottovoce.estimators import models
from sottovoce.exceptions import ModelFormatError
from sottovoce.papers import dp_scd
from sottovoce.privacy import accounting
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.report.comparison import made_again
from support.receipts import fitted

# receipt -> option -> the largest value that is accepted
LARGEST = {
    "newton, passes given": {"n_passes": 1_000},
    "passes given": {"n_passes": 10**6},
    "refinement, passes given": {"n_passes": 10**6},
    "all classes jointly, passes given": {"n_passes": 10**6},
    "ridge Published": {"epochs": 10**6},
    "ridge Sequential": {"epochs": 10**6 // 40},  # of 40 batches
    "ridge Primal": {"epochs": 10**6 // 4, "block_size": 10**6},  # of four blocks
}
CASES = [(name, option) for name, options in LARGEST.items() for option in options]
SHORT = ("newton, passes given", "passes given")
MOST_ACCOUNTED = 400
MOST_STEPS = 20_000
MOST_FOLLOWED = 4 * 10**6  # a million releases, and what is done with them


def with_option(name, option, value):
    data = copy.deepcopy(json.loads(fitted(name).guarantee_.to_json()))
    arguments = data["parameters"]["arguments"]
    place = "solver" if isinstance(arguments["solver"], dict) else "solver_options"
    arguments[place] = arguments.get(place) or {"dict": {}}
    arguments[place]["dict"][option] = value
    return Guarantee.from_dict(data)


@pytest.fixture
def work(monkeypatch):
    """Count what is accounted, the passes whose noise is planned one by one, and the steps that are followed."""
    counted = {"accounted": 0, "planned": 0, "followed": 0}

    def counting(kind, function):
        def call(*given, **more):
            counted[kind] += 1
            return function(*given, **more)

        return call

    for kind in vars(accounting).values():
        if isinstance(kind, type) and issubclass(kind, accounting.Accountant) and "_epsilon" in vars(kind):
            monkeypatch.setattr(kind, "_epsilon", counting("accounted", vars(kind)["_epsilon"]))
    monkeypatch.setattr(newton_schedule, "math", _Counted(newton_schedule.math, counted))

    def followed(asks):
        asked, answer = asks(), None
        while True:
            try:
                step = asked.send(answer)
            except StopIteration as end:
                return end.value
            counted["followed"] += 1
            if counted["followed"] > MOST_FOLLOWED:
                raise RecursionError("this would not end soon")
            answer = yield step

    follow = models.replay
    monkeypatch.setattr(models, "replay", lambda asks, kept: follow(lambda: followed(asks), kept))
    return counted


class _Counted:
    """The module of mathematics, whose calls are counted."""

    def __init__(self, module, counted):
        self._module, self._counted = module, counted

    def __getattr__(self, name):
        self._counted["planned"] += 1
        return getattr(self._module, name)


# ten seconds each; the shortest, and how work grows, stay in the ordinary run
LONG = [pytest.param(*case, marks=[pytest.mark.slow] * (case[0] not in SHORT)) for case in CASES]


@pytest.mark.parametrize(("name", "option"), LONG)
def test_the_largest_number_is_cheap(work, name, option):
    try:
        made_again(with_option(name, option, LARGEST[name][option]), dp_scd.SOLVERS)
    except ModelFormatError as error:
        assert "must be a whole number" not in str(error)  # refused for another reason, such as too much noise
    assert work["accounted"] <= MOST_ACCOUNTED
    assert work["planned"] <= MOST_STEPS
    assert work["followed"] <= MOST_FOLLOWED


@pytest.mark.parametrize(("name", "option"), CASES)
def test_work_grows_no_faster_than_the_number(work, name, option):
    """So that of the largest number follows: what is followed at most as it does, and the rest not at all."""
    found, numbers = [], (20, 40, 80)
    for value in numbers:
        work.update(dict.fromkeys(work, 0))
        made_again(with_option(name, option, value), dp_scd.SOLVERS)
        found.append(dict(work))
    first, second, third = found
    assert third["accounted"] == second["accounted"] <= MOST_ACCOUNTED
    assert third["followed"] - second["followed"] <= 2 * (second["followed"] - first["followed"])
    each = (third["followed"] - second["followed"]) / (numbers[2] - numbers[1])
    assert third["followed"] + each * LARGEST[name][option] <= MOST_FOLLOWED


@pytest.mark.parametrize("beyond", [1, 2**53, 10**30])
@pytest.mark.parametrize(("name", "option"), CASES)
def test_a_larger_one_is_refused_in_words(work, name, option, beyond):
    with pytest.raises(ModelFormatError, match=rf"{option} must be a whole number >= 1 and <= \d+"):
        made_again(with_option(name, option, LARGEST[name][option] + beyond), dp_scd.SOLVERS)
    assert work["accounted"] <= MOST_ACCOUNTED
    assert not work["followed"]


def test_the_count_sees_the_work(work):
    """A hundred passes are more work than ten: else a bound on the count would say nothing."""
    found = []
    for passes in (10, 100):
        work["planned"] = 0
        made_again(with_option("newton, passes given", "n_passes", passes))
        found.append(work["planned"])
    assert found[1] > 2 * found[0]


def test_bounds_for_all_columns_are_not_written_out_for_each():
    data = json.loads(fitted("scaler, two bounds").guarantee_.to_json())
    data["parameters"]["n_features"] = 10**6
    tracemalloc.start()
    made_again(Guarantee.from_dict(data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6
