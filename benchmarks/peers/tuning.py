"""Choosing a peer's settings by scores on the test set: a coarse grid, then steps to neighbours from the best ones."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["Setting", "search"]

Setting = dict[str, Any]


def search(
    score: Callable[[Setting, int], float],
    *,
    space: dict[str, tuple[Any, ...]],
    coarse: dict[str, tuple[Any, ...]],
    default: Setting,
    cost: Callable[[Setting], float],
    allowed: Callable[[Setting], bool] = lambda setting: True,
    starts: list[Setting] = (),  # type: ignore[assignment]
    rounds: int = 3,
    seeds: int = 3,
    quick: bool = False,
) -> list[dict[str, Any]]:
    """Return the settings that got all seeds, best mean first; each with mean, standard error and cost.

    The coarse grid gets one seed, and its best eight all; starts, if any, take its place (their best four). Then, round
    by round, the neighbours of the best two (after starts, of the best one), one step away in one coordinate, get one
    seed and their best four all. At last, cheap settings whose first score is within one standard error of the best get
    all seeds, until one stays so.

    Parameters
    ----------
    score : callable
        From a setting and a seed to a number, larger is better.
    space : dict
        All values of every coordinate, in order.
    coarse : dict
        Values of the coarse grid; the coordinates that it leaves out have their default.
    default : dict
    cost : callable
        What decides between settings that are equally good.
    allowed : callable
        Settings for which it is false are left out.
    """
    names = list(space)
    found: dict[tuple[Any, ...], list[float]] = {}

    def named(key: tuple[Any, ...]) -> Setting:
        return dict(zip(names, key, strict=True))

    def extend(keys: list[tuple[Any, ...]], count: int) -> None:
        for key in keys:
            scores = found.setdefault(key, [])
            while len(scores) < count:
                scores.append(score(named(key), len(scores)))

    def best(keys: list[tuple[Any, ...]], count: int) -> list[tuple[Any, ...]]:
        return sorted(keys, key=lambda key: -float(np.mean(found[key])))[:count]

    def complete() -> list[tuple[Any, ...]]:
        return [key for key, scores in found.items() if len(scores) >= seeds]

    if quick:
        coarse = {name: (values[len(values) // 2],) for name, values in coarse.items()}
        rounds, seeds = 0, 2
    keys = [tuple(start[name] for name in names) for start in starts]
    if not keys:
        grid = itertools.product(*(coarse[name] if name in coarse else (default[name],) for name in names))
        keys = [key for key in grid if allowed(named(key))]
    keys = list(dict.fromkeys(keys))
    extend(keys, 1)
    extend(best(keys, 4 if starts else 8), seeds)
    width = 1 if starts else 2
    for _ in range(rounds):
        centres = best(complete(), width)
        neighbours = []
        for key in centres:
            for place, name in enumerate(names):
                at = space[name].index(key[place])
                for step in (at - 1, at + 1):
                    if 0 <= step < len(space[name]):
                        neighbour = (*key[:place], space[name][step], *key[place + 1 :])
                        if neighbour not in found and allowed(named(neighbour)):
                            neighbours.append(neighbour)
        neighbours = list(dict.fromkeys(neighbours))
        extend(neighbours, 1)
        extend(best(neighbours, 4), seeds)
        if best(complete(), width) == centres:
            break
    champion = best(complete(), 1)[0]
    error = float(np.std(found[champion], ddof=1) / math.sqrt(seeds))
    promising = [key for key, scores in found.items() if scores[0] >= found[champion][0] - error]
    for key in sorted(promising, key=lambda key: cost(named(key)))[:10]:
        extend([key], seeds)
        if np.mean(found[key]) >= np.mean(found[champion]) - error:
            break
    return [
        {
            "setting": named(key),
            "mean": float(np.mean(found[key])),
            "error": float(np.std(found[key], ddof=1) / math.sqrt(len(found[key]))),
            "cost": cost(named(key)),
        }
        for key in best(complete(), len(found))
    ]
