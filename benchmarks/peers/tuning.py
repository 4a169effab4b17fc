"""Choosing a peer's settings by held-out scores: a coarse grid, then steps to neighbours, for each metric on its own.

All metrics and all variants (averages of one run) are scored from the same fits; what the search for one metric has
tried, the others know.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["Setting", "cheapest", "search"]

Setting = dict[str, Any]
Key = tuple[Any, ...]
SEEDS = (1, 3, 8)  # of everything tried; of what looks good; of the finalists
FINALISTS = 4
DEAREST = 1 / 20  # of the budget, that one fit may cost


def search(
    score: Callable[[Setting, int], dict[str, dict[Any, float]]],
    metrics: Sequence[str],
    *,
    space: dict[str, tuple[Any, ...]],
    coarse: dict[str, tuple[Any, ...]],
    default: Setting,
    frugal: dict[str, tuple[Any, ...]] | None = None,
    likely: Sequence[Setting] = (),
    probe: str | None = None,
    together: Sequence[tuple[str, str]] = (),
    cost: Callable[[Setting], float] = lambda setting: 1.0,
    price: Callable[[Setting], float] | None = None,
    budget: float = 600.0,
    starts: Sequence[Setting] = (),
    rounds: int = 12,
    seeds: tuple[int, int, int] = SEEDS,
    quick: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return for each metric the best setting and variant, and the cheapest of those within one standard error.

    The values of `probe` are tried with the default. Then the coarse grid (a third of it where there are starts) and
    the starts get one seed, and what is best for a metric three. Then, round by round, the neighbours of each metric's
    best two are tried the same way, until nothing better is found or the budget is spent. The best four of each metric
    get eight seeds.

    Parameters
    ----------
    score : callable
        From a setting and a seed to scores by metric and variant; larger is better.
    space : dict
        All values of every coordinate, in order.
    coarse : dict
        Values of the coarse grid; the coordinates that it leaves out have their default.
    frugal : dict, optional
        Not used here: see `cheapest`.
    likely : sequence of settings
        Tried beside the grid, with the best value of `probe`.
    together : sequence of pairs
        Coordinates of which one is moved up as the other is moved down, beside single moves.
    cost : callable
        Units that a fit takes from the budget; settings that cost more than a twentieth of it are left out.
    price : callable, optional
        What decides between settings that are equally good; default `cost`.
    """
    if quick:
        coarse = {name: (values[len(values) // 2],) for name, values in coarse.items()}
        rounds, seeds = 0, (1, 2, 2)
    tried = _Tried(score, list(space), cost, budget)
    if probe is not None and not quick:
        tried.extend([tried.key({**default, probe: value}) for value in space[probe]], seeds[0])
        default = tried.named(tried.best(metrics[0], 1)[0])
    keys = list(itertools.product(*(coarse.get(name, (default.get(name),)) for name in space)))
    known = [tried.key(start) for start in starts]
    guesses = [tried.key({**start, **({probe: default[probe]} if probe else {})}) for start in likely]
    if known:
        keys = [keys[k] for k in np.random.default_rng(0).permutation(len(keys))[: len(keys) // 3]]
    tried.extend(tried.allowed([*known, *guesses, *keys]), seeds[0])
    for metric in metrics:
        tried.extend(tried.best(metric, 2 * FINALISTS), seeds[1])
    for _ in range(rounds):
        before = [tried.best(metric, 2, seeds[1]) for metric in metrics]
        for metric, centres in zip(metrics, before, strict=True):
            near = tried.allowed(_neighbours(centres, space, together))
            new = [key for key in near if key not in tried.scores]
            tried.extend(new, seeds[0])
            tried.extend(tried.best(metric, FINALISTS, among=new), seeds[1])
        if tried.is_spent or before == [tried.best(metric, 2, seeds[1]) for metric in metrics]:
            break
    ended = "the budget" if tried.is_spent else "no better neighbour"
    tried.budget = math.inf
    return {metric: {**_chosen(tried, metric, seeds, price or cost), "ended by": ended} for metric in metrics}


def cheapest(
    score: Callable[[Setting, int], dict[str, dict[Any, float]]],
    metric: str,
    target: float,
    *,
    space: dict[str, tuple[Any, ...]],
    coarse: dict[str, tuple[Any, ...]],
    default: Setting,
    frugal: dict[str, tuple[Any, ...]] | None = None,
    cost: Callable[[Setting], float],
    price: Callable[[Setting], float] | None = None,
    **others: Any,
) -> dict[str, dict[str, Any]]:
    """Return the setting of least price whose mean over three seeds reaches a target, or the best one if none does.

    The settings are those of the coarse grid, with the values of `frugal` in place of its own.
    """
    coarse = {**coarse, **(frugal or {})}
    grid = (
        dict(zip(space, values, strict=True))
        for values in itertools.product(*(coarse.get(name, (default.get(name),)) for name in space))
    )
    tried = _Tried(score, list(space), cost, math.inf)
    for setting in sorted(grid, key=price or cost):
        key = tried.key(setting)
        tried.extend([key], 1)
        if tried.value(key, metric) >= target:
            tried.extend([key], 3)
            if tried.value(key, metric) >= target:
                break
    else:
        tried.extend(tried.best(metric, FINALISTS), 3)
        key = tried.best(metric, 1, 3)[0]
    return {metric: {"setting": {**tried.named(key), "variant": _variant(tried, key, metric)[1]}}}


class _Tried:
    """What has been tried, and what it cost."""

    def __init__(self, score: Any, names: list[str], cost: Callable[[Setting], float], budget: float):
        self.score, self.names, self.cost, self.budget = score, names, cost, budget
        self.dearest = DEAREST * budget
        self.spent = 0.0
        self.scores: dict[Key, list[dict[str, dict[Any, float]]]] = {}

    def named(self, key: Key) -> Setting:
        return dict(zip(self.names, key, strict=True))

    def key(self, setting: Setting) -> Key:
        return tuple(setting[name] for name in self.names)

    def allowed(self, keys: Sequence[Key]) -> list[Key]:
        return [key for key in dict.fromkeys(keys) if self.cost(self.named(key)) <= self.dearest]

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.budget

    def extend(self, keys: Sequence[Key], count: int) -> None:
        """Score settings with more seeds, while there is budget."""
        for key in keys:
            while len(self.scores.get(key, ())) < count and not self.is_spent:
                scores = self.scores.setdefault(key, [])
                scores.append(self.score(self.named(key), len(scores)))
                self.spent += self.cost(self.named(key))

    def means(self, key: Key, metric: str) -> dict[Any, float]:
        """Return the mean over the seeds, by variant."""
        scores = [found[metric] for found in self.scores[key]]
        return {variant: float(np.mean([found[variant] for found in scores])) for variant in scores[0]}

    def value(self, key: Key, metric: str) -> float:
        """Return the mean over the seeds of the best variant."""
        return max(self.means(key, metric).values())

    def best(self, metric: str, count: int, least: int = 1, among: Sequence[Key] | None = None) -> list[Key]:
        """Return the best settings of those that got enough seeds."""
        keys = [key for key in (self.scores if among is None else among) if len(self.scores.get(key, ())) >= least]
        return sorted(keys, key=lambda key: -self.value(key, metric))[:count]


def _neighbours(
    centres: Sequence[Key], space: dict[str, tuple[Any, ...]], together: Sequence[tuple[str, str]]
) -> list[Key]:
    """Return the settings one move away."""
    names = list(space)
    moves = [{name: sign} for name in names for sign in (-1, 1)]
    moves += [{one: sign, other: -sign} for one, other in together for sign in (-1, 1)]
    found = []
    for centre, move in itertools.product(centres, moves):
        setting = dict(zip(names, centre, strict=True))
        places = {name: space[name].index(setting[name]) + sign for name, sign in move.items()}
        if all(0 <= place < len(space[name]) for name, place in places.items()):
            setting.update({name: space[name][place] for name, place in places.items()})
            found.append(tuple(setting.values()))
    return list(dict.fromkeys(found))


def _chosen(
    tried: _Tried, metric: str, seeds: tuple[int, int, int], price: Callable[[Setting], float]
) -> dict[str, Any]:
    """Return the best setting of a metric, and the cheapest of those that are as good."""
    full = tried.best(metric, FINALISTS, seeds[1]) or tried.best(metric, FINALISTS)
    tried.extend(full, seeds[2])
    champion = tried.best(metric, 1, seeds[2])[0]
    best, variant = _variant(tried, champion, metric)
    error = float(np.std([found[metric][variant] for found in tried.scores[champion]], ddof=1) / math.sqrt(seeds[2]))
    cheap = champion
    good = [key for key in tried.best(metric, len(tried.scores), seeds[1]) if tried.value(key, metric) >= best - error]
    for key in sorted(good, key=lambda key: price(tried.named(key)))[:FINALISTS]:
        tried.extend([key], seeds[2])
        if tried.value(key, metric) >= best - error:
            cheap = key
            break
    return {
        "setting": {**tried.named(champion), "variant": variant},
        "cheap": {**tried.named(cheap), "variant": _variant(tried, cheap, metric)[1]}, "held out": best, "error": error,
        "tried": len(tried.scores), "share of the dearest allowed": tried.cost(tried.named(champion)) / tried.dearest,
    }  # fmt: skip


def _variant(tried: _Tried, key: Key, metric: str) -> tuple[float, Any]:
    """Return the best mean of a setting, and its variant."""
    return max((mean, variant) for variant, mean in tried.means(key, metric).items())
