"""Tables in raw units: the recipe (`DPPipeline` of `DPScaler` and a model) against bounds that somebody knows.

    python -m benchmarks.central.raw_columns [--quick] [--docs]

The same budget for all. *Fixed bounds*: each column from its least to its largest entry, which nobody knows so well;
*standardised*: exact means and deviations, for which nobody paid. The recipe's scaler runs at several cuts; an infinite
one is how it was before it had any.

The cut was chosen on every second shape and every second table, in the order of the lists, and confirmed once on the
others (commit 8f81b847 has the rule that was written down before, and the choice).
"""

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.common import data_folder, parts_at_hand
from benchmarks.driver import benchmark
from benchmarks.sets import RAW
from sottovoce import DPLogisticRegression, DPPipeline, DPRidge, DPScaler
from support.raw_columns import SHAPES, RawTable, ranged, scores_of, table

DELTA, CUTS = 1e-6, (math.inf, DPScaler().cut)
EPSILONS = (0.1, 1.0, math.inf)
N_SAMPLES = 6_000
SEEDS = 3


def uniform(offset: float) -> tuple[Any, Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    X, w = rng.uniform(-1.0, 1.0, (20_000, 10)), rng.normal(size=10)
    y = (X @ w + 0.3 * rng.logistic(size=len(X)) > 0.0).astype(int)
    return X + offset, y, {"classes": [0, 1]}


def of_scikit_learn(load: Callable[..., Any]) -> tuple[Any, Any, dict[str, Any]]:
    X, y = load(return_X_y=True)
    return X, y, {"classes": sorted(set(y.tolist()))}


FIRST = {
    "uniform": lambda: uniform(0.0), "uniform + 5": lambda: uniform(5.0), "uniform + 2000": lambda: uniform(2000.0),
    "breast cancer": lambda: of_scikit_learn(load_breast_cancer), "digits": lambda: of_scikit_learn(load_digits),
    "wine": lambda: of_scikit_learn(load_wine), "cal_housing": RAW["cal_housing"],
    "blogfeedback": RAW["blogfeedback"],
}  # fmt: skip
FIRST |= {name: RAW[name] for name in ("skin", "credit", "bank", "adult (numbers)", "casp", "msd_sample")}
MADE_UP = ("uniform", "uniform + 5", "uniform + 2000", "breast cancer", "digits", "wine")


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
TABLES: dict[str, Callable[[], Any]] = {**FIRST, **SECOND}


def parts(name: str, seed: int) -> RawTable:
    """Return one split of a shape's table or of a real one."""
    if name in SHAPES:
        return table(name, N_SAMPLES, seed)
    X, y, public = TABLES[name]()
    strata = None if "label_bounds" in public else y
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=strata)
    return RawTable(X, y, X_test, y_test, public)


def measure(name: str, epsilon: float, seed: int) -> dict[str, tuple[float, float]]:
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
    for cut in CUTS:
        steps = [("scale", DPScaler(cut=cut)), ("model", kind(**given.public))]
        ways[f"{cut:g}"] = scores_of(DPPipeline(steps, **budget).fit(given.X, given.y), given)
    return ways


def average(name: str, epsilon: float, seeds: int) -> dict[str, tuple[float, float]]:
    """Return means over seeds of what `measure` returns."""
    found = [measure(name, epsilon, seed) for seed in range(seeds)]
    return {way: tuple(np.mean([one[way] for one in found], axis=0).tolist()) for way in found[0]}


WAYS = ("fixed bounds", "standardised", *(f"{cut:g}" for cut in CUTS))
SHAPE = (
    "shape of the last column", *(f"AUC, epsilon 1: {way}" for way in ("fixed bounds", "without a cut", "recipe")),
    *(f"AUC, no noise: {way}" for way in ("standardised", "recipe")),
    *(f"accuracy, epsilon .1: {way}" for way in ("one class", "without a cut", "recipe")),
)  # fmt: skip


def of_shapes(names: list[str], seeds: int) -> Iterator[tuple[str, ...]]:
    """Yield a row a shape: AUC at epsilon 1 and without noise, accuracy at epsilon .1."""
    for name in names:
        private, exact, little = (average(name, epsilon, seeds) for epsilon in (1.0, math.inf, 0.1))
        cells = (
            *(private[way][0] for way in ("fixed bounds", "inf", WAYS[-1])),
            *(exact[way][0] for way in ("standardised", WAYS[-1])),
            *(little[way][1] for way in ("one class", "inf", WAYS[-1])),
        )
        yield name, *(f"{value:.3f}" for value in cells)


def of_tables(names: list[str], seeds: int) -> Iterator[tuple[str, ...]]:
    """Yield a row a real table and epsilon: AUC and accuracy of each way."""
    for name in names:
        for epsilon in EPSILONS:
            one = average(name, epsilon, seeds)
            both = [f"{a:.3f}" if a == b else f"{a:.3f} / {b:.3f}" for a, b in (one[way] for way in WAYS)]
            yield name, f"{epsilon:g}", f"{one['one class'][1]:.3f}", *both


@benchmark(page="measured/pipelines.md", seeds=(SEEDS, 1))
def main(run) -> None:
    warnings.simplefilter("ignore")
    real = parts_at_hand(MADE_UP, tuple(name for name in TABLES if name not in (*MADE_UP, *SECOND)))
    if len(real) > len(MADE_UP) and (data_folder() / "second").is_dir():
        real += tuple(SECOND)
    shapes, real = (list(SHAPES)[::15], ["wine"]) if run.quick else (list(SHAPES), [n for n in TABLES if n in real])
    run.table("shapes of columns", SHAPE, of_shapes(shapes, run.seeds), mark="shapes of columns", width=170)
    head = ("table", "epsilon", "one class", "fixed bounds", "standardised", "without a cut", "recipe")
    run.table("raw tables", head, of_tables(real, run.seeds), mark="raw tables", width=170)
