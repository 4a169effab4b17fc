"""One column in every container that a user may give it in."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa


def _nullable(kind):
    def made(values):
        return pd.Series([pd.NA if value is None else value for value in values], dtype=kind)

    return made


def _masked(values):
    hidden = [value is None for value in values]
    filler = next(value for value in values if value is not None)
    return np.ma.masked_array(np.array([filler if value is None else value for value in values]), mask=hidden)


def _objects(values):
    return np.fromiter(values, object, len(values))


# Each makes a container or raises; where it cannot hold a value, so does a user's code.
CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "numpy float32": lambda values: np.array(values, np.float32),
    "numpy objects": _objects,
    "numpy texts": lambda values: np.array(values, np.dtypes.StringDType(na_object=None)),
    "masked": _masked,
    "masked objects": lambda values: np.ma.masked_array(_objects(values), mask=[value is None for value in values]),
    "pandas": pd.Series,
    "pandas objects": lambda values: pd.Series(values, dtype=object),
    "pandas index": lambda values: pd.Index(values, dtype=object),
    **{kind: _nullable(kind) for kind in ("Int64", "UInt64", "Float64", "boolean", "string", "str", "int64[pyarrow]")},
    "double[pyarrow]": _nullable("double[pyarrow]"),
    "categorical": pd.Categorical,
    "categorical series": lambda values: pd.Series(pd.Categorical(values)),
    "ordered categorical": lambda values: pd.Categorical(values, ordered=True),
    "nullable categorical": lambda values: pd.Categorical(pd.array(values, dtype="Int64")),
    "arrow": pa.array,
    "arrow chunks": lambda values: pa.chunked_array([pa.array(values[:2]), pa.array(values[2:])]),
    "arrow dictionary": lambda values: pa.array(values).dictionary_encode(),
    "polars": lambda values: pl.Series(values, strict=True),
    "polars categorical": lambda values: pl.Series(values, dtype=pl.Categorical),
    "dask": lambda values: dd.from_pandas(pd.Series(values, dtype=object), npartitions=1),
    "dask Int64": lambda values: dd.from_pandas(_nullable("Int64")(values), npartitions=1),
}


class Kind(float):
    """A number of somebody else's kind."""


class NoKey:
    """No key of a dictionary, which is told by another error than that of lists, as by a duration of numpy."""

    def __hash__(self):
        raise ValueError


CHANGES = {
    "missing": None, "text": "text", "10^400": 10**400, "True": True, "-0.0": -0.0, "NaN": float("nan"), "list": [1],
    "a kind of float": Kind(17.0), "no key": NoKey(),
}  # fmt: skip
_MADE = {}  # by what is in it: the pairs of a column


def held(container):
    """Return what a container holds, asked for entry by entry: its own making may have rounded or changed it."""
    if hasattr(container, "compute"):
        container = container.compute()
    if hasattr(container, "to_pylist"):
        return container.to_pylist()
    array = getattr(container, "array", container)
    return [array[k] for k in range(len(array))]


def same(one, other):
    """Tell whether two entries are one: of one kind and equal, as 17 and 17.0 are, and missing and missing."""
    one, other = (entry.item() if isinstance(entry, np.generic) else entry for entry in (one, other))
    numbers = all(isinstance(entry, (int, float)) and not isinstance(entry, bool) for entry in (one, other))
    return (numbers or type(one) is type(other)) and one == other


def pairs(base, names=None, changes=None, half=None):
    """Yield (what, place, container, changed container): two that are equal but for one entry.

    A half, 0 or 1, has each container with every second change, and each change in every second container.
    Containers that cannot hold the entries are passed over, and those whose own making changed other entries, as a
    plain array of numbers and one text does: then a user gave other data.
    """
    if (key := repr(base)) not in _MADE:  # half of the time of those that ask: many ask for the same
        _MADE[key] = list(_made(base))
    for name, change, place, given, changed in _MADE[key]:
        odd = (list(CONTAINERS).index(name) + list(CHANGES).index(change)) % 2
        if name in (names or CONTAINERS) and change in (changes or CHANGES) and half in (None, odd):
            yield f"{name}, {change} at {place}", place, given, changed


def _made(base):
    for name, make in CONTAINERS.items():
        try:
            given = make(list(base))
        except Exception:
            continue
        for change, value in CHANGES.items():
            for place in (0, len(base) - 1):
                values = list(base)
                values[place] = value
                try:
                    changed = make(values)
                except Exception:
                    continue
                first, second = held(given), held(changed)
                if len(getattr(changed, "shape", (0,))) == 1 and all(
                    same(first[k], second[k]) for k in range(len(base)) if k != place
                ):
                    yield name, change, place, given, changed
