"""What a schema says, as the arguments of a protocol."""

from __future__ import annotations

from typing import Any

from sottovoce.exceptions import ParameterError
from sottovoce.local import CategoricalFeature, NumericFeature
from sottovoce.tables import Schema
from sottovoce.tables.categorical import CategoricalColumn
from sottovoce.tables.numeric import NumericColumn


def protocol_arguments(schema: Schema, missing: bool) -> dict[str, Any]:
    """Return the features and the labels of a schema as arguments of `Protocol`."""
    if schema.unit is not None:
        raise ParameterError(f"unit {schema.unit!r}: one report is one person. Remove unit from the schema.")
    features = [_feature(column, missing) for column in schema.feature_columns]
    if schema.target is None:
        raise ParameterError("--target is missing: the schema names no column to predict.")
    if schema.classes is None:
        return {"features": features, "task": "regression", "label_bounds": schema.label_bounds}
    if any(isinstance(label, bool) for label in schema.classes):
        raise ParameterError(f"target {schema.target}: the categories true and false are not supported; write texts.")
    return {"features": features, "classes": schema.classes}


def _feature(column: Any, missing: bool) -> NumericFeature | CategoricalFeature:
    if column.missing is not None:
        raise ParameterError(
            f"column {column.name!r}: devices have a rule of their own for missing values. Remove missing, and give "
            "--missing, which takes no value."
        )
    if isinstance(column, NumericColumn):
        if column.scale != "linear" or column.bins is not None:
            raise ParameterError(f"column {column.name!r}: devices know neither bins nor a logarithmic scale.")
        return NumericFeature(column.name, *column.bounds, missing=missing)
    if not isinstance(column, CategoricalColumn):
        raise ParameterError(f"column {column.name!r}: devices know no dates. Describe what they report as a number.")
    if column.aliases or not all(isinstance(category, str) for category in column.categories):
        raise ParameterError(f"column {column.name!r}: devices know categories that are texts, without aliases.")
    return CategoricalFeature(column.name, tuple(map(str, column.categories)), missing=missing)
