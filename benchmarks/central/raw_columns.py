"""Tables in raw units: the recipe (`DPPipeline` of `DPScaler` and a model) against bounds that somebody knows.

    python -m benchmarks.central.raw_columns [--quick] [--docs]

The same budget for all. *Fixed bounds*: each column from its least to its largest entry, which nobody knows so well;
*standardised*: exact means and deviations, for which nobody paid. The recipe's scaler runs at several cuts; an infinite
one is how it was before it had any.

The rule by which the cut was chosen, written down before anything was measured: on every second shape and every second
table (in the order of the lists), at epsilon .1, 1 and inf, the cut with the least sum of shortfalls. A shortfall is
what is missing to the better of fixed bounds and standardised, in AUC (accuracy of several classes, R^2), at least 0
and at most .1. Where two are within 1 % the larger cut is taken, which changes ordinary columns less. The other shapes
and tables confirm it, once. ``--choose --half chosen`` repeats the choice.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.central import raw_units
from benchmarks.common import data_folder, parts_at_hand
from benchmarks.driver import benchmark, option
from sottovoce import DPLogisticRegression, DPPipeline, DPRidge, DPScaler
from support.raw_columns import SHAPES, RawTable, ranged, scores_of, table

DELTA, CUT = 1e-6, DPScaler().cut
CUTS = (2.0, 3.0, 4.0, 5.0, 7.0, 10.0, math.inf)
EPSILONS = (0.1, 1.0, math.inf)
N_SAMPLES = 6_000
SEEDS = 3


def second(name: str, label: str, numeric: str, **public: Any) -> Callable[[], Any]:
    """Return how to read the numeric columns of one of the second tables; rows without some of them are left out."""

    def read() -> Any:
        found = pd.read_csv(data_folder() / "second" / f"{name}.csv.bz2")
        kept = found[[*numeric.split(), label]].dropna()
        y = kept[label].to_numpy()
        bounds = public.get("label_bounds")
        return kept[numeric.split()].to_numpy(float), y if bounds is None else np.clip(y, *bounds), public

    return read


SECOND = {
    "gmsc": second(
        "gmsc",
        "SeriousDlqin2yrs",
        "RevolvingUtilizationOfUnsecuredLines age NumberOfTime30-59DaysPastDueNotWorse NumberOfTimes90DaysLate "
        "NumberOfTime60-89DaysPastDueNotWorse DebtRatio MonthlyIncome NumberOfOpenCreditLinesAndLoans "
        "NumberRealEstateLoansOrLines NumberOfDependents",
        classes=[0, 1],
    ),
    "htru2": second("htru2", "C", "M1 ST1 EX1 SK1 M2 ST2 EX2 SK2", classes=[0, 1]),
    "pendigits": second("pendigits", "class", " ".join(f"c{k}" for k in range(1, 17)), classes=list(range(10))),
    "bike": second(
        "bike",
        "cnt",
        "season yr mnth hr holiday weekday weathersit temp atemp hum windspeed",
        label_bounds=(0.0, 1_000.0),
    ),
    "diamonds": second("diamonds", "price", "carat depth table x y z", label_bounds=(0.0, 20_000.0)),
    "ccpp": second("ccpp", "PE", "AT V AP RH", label_bounds=(420.0, 496.0)),
    "diabetes130": second(
        "diabetes130",
        "readmitted",
        "admission_type_id discharge_disposition_id admission_source_id time_in_hospital num_lab_procedures "
        "num_procedures num_medications number_outpatient number_emergency number_inpatient number_diagnoses",
        classes=["<30", ">30", "NO"],
    ),
}
TABLES: dict[str, Callable[[], Any]] = {**raw_units.CHOSEN, **raw_units.CONFIRMED, **SECOND}


def parts(name: str, seed: int) -> RawTable:
    """Return one split of a shape's table or of a real one."""
    if name in SHAPES:
        return table(name, N_SAMPLES, seed)
    X, y, public = TABLES[name]()
    strata = None if "label_bounds" in public else y
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=strata)
    return RawTable(X, y, X_test, y_test, public)


def measure(name: str, epsilon: float, seed: int, cuts: tuple[float, ...]) -> dict[str, tuple[float, float]]:
    """Return ranking and accuracy of each way on held-out rows."""
    given = parts(name, seed)
    kind = DPRidge if "label_bounds" in given.public else DPLogisticRegression
    budget = {"epsilon": epsilon, "delta": None if math.isinf(epsilon) else DELTA, "random_state": seed}
    ways: dict[str, tuple[float, float]] = {"one class": (0.5, given.larger_class())}
    bounded = ranged(given)
    ways["fixed bounds"] = scores_of(kind(**bounded.public, **budget).fit(bounded.X, bounded.y), bounded)
    scaler = StandardScaler().fit(given.X)
    exact = given._replace(X=scaler.transform(given.X), X_test=scaler.transform(given.X_test))
    ways["standardised"] = scores_of(kind(**exact.public, **budget).fit(exact.X, exact.y), exact)
    for cut in cuts:
        steps = [("scale", DPScaler(cut=cut)), ("model", kind(**given.public))]
        ways[f"{cut:g}"] = scores_of(DPPipeline(steps, **budget).fit(given.X, given.y), given)
    return ways


def average(name: str, epsilon: float, seeds: int, cuts: tuple[float, ...]) -> dict[str, tuple[float, float]]:
    """Return means over seeds of what `measure` returns."""
    found = [measure(name, epsilon, seed, cuts) for seed in range(seeds)]
    return {way: tuple(np.mean([one[way] for one in found], axis=0).tolist()) for way in found[0]}


def choose(names: list[str], seeds: int) -> None:
    """Print the sum of shortfalls of each cut, over these shapes and tables."""
    lost = dict.fromkeys(CUTS, 0.0)
    for name in names:
        for epsilon in EPSILONS:
            one = average(name, epsilon, seeds, CUTS)
            best = max(one["fixed bounds"][0], one["standardised"][0])
            for cut in CUTS:
                lost[cut] += min(0.1, max(0.0, best - one[f"{cut:g}"][0]))
        print(name, {f"{cut:g}": round(value, 4) for cut, value in lost.items()}, flush=True)


HALF = {"": slice(None), "chosen": slice(0, None, 2), "confirmed": slice(1, None, 2)}
WAYS = ("fixed bounds", "standardised", "inf", f"{CUT:g}")


def of_shapes(names: list[str], seeds: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the table of shapes: AUC at epsilon 1 and without noise, accuracy at epsilon .1."""
    head = (
        "shape of the last column", *(f"AUC, epsilon 1: {way}" for way in ("fixed bounds", "without a cut", "recipe")),
        *(f"AUC, no noise: {way}" for way in ("standardised", "recipe")),
        *(f"accuracy, epsilon .1: {way}" for way in ("one class", "without a cut", "recipe")),
    )  # fmt: skip
    rows = []
    for name in names:
        private, exact, little = (average(name, epsilon, seeds, (math.inf, CUT)) for epsilon in (1.0, math.inf, 0.1))
        cells = (
            *(private[way][0] for way in ("fixed bounds", "inf", WAYS[-1])),
            *(exact[way][0] for way in ("standardised", WAYS[-1])),
            *(little[way][1] for way in ("one class", "inf", WAYS[-1])),
        )
        rows.append((name, *(f"{value:.3f}" for value in cells)))
        print(rows[-1], flush=True)
    return head, rows


def of_tables(names: list[str], seeds: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the table of real tables: AUC and accuracy of each way, at each epsilon."""
    head = ("table", "epsilon", "one class", *("fixed bounds", "standardised", "without a cut", "recipe"))
    rows = []
    for name in names:
        for epsilon in EPSILONS:
            one = average(name, epsilon, seeds, (math.inf, CUT))
            both = [f"{a:.3f}" if a == b else f"{a:.3f} / {b:.3f}" for a, b in (one[way] for way in WAYS)]
            rows.append((name, f"{epsilon:g}", f"{one['one class'][1]:.3f}", *both))
            print(rows[-1], flush=True)
    return head, rows


@benchmark(
    page="measured/pipelines.md",
    half=option("", help="shapes and tables that the cut was chosen on, or not", choices=tuple(HALF)),
    choose=option(False, help="the sum of shortfalls of each cut"),
)
def main(run) -> None:
    warnings.simplefilter("ignore")
    made_up = tuple(name for name in TABLES if name in raw_units.MADE_UP)
    at_hand = parts_at_hand(made_up, tuple(name for name in TABLES if name not in (*made_up, *SECOND)))
    if len(at_hand) > len(made_up) and (data_folder() / "second").is_dir():
        at_hand += tuple(SECOND)
    real = [name for name in list(TABLES)[HALF[run.half]] if name in at_hand]
    shapes, seeds = list(SHAPES)[HALF[run.half]], SEEDS
    if run.quick:
        shapes, real, seeds = shapes[::15], ["wine"], 1
    if run.choose:
        choose(shapes + real, seeds)
        return
    run.tables({"shapes of columns": of_shapes(shapes, seeds), "raw tables": of_tables(real, seeds)}, width=170)
