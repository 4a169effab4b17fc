"""What ties a receipt to its model: the digest of what `fit` left, and the arguments the model was made with."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sottovoce._plain_data import decode, digest, encode, encode_or_write
from sottovoce.exceptions import ModelFormatError

# a seed would take the noise away; where the budget is kept is nobody's business who gets the model
LEFT_OUT: Final = ("random_state", "ledger", "dataset")
BOUNDS: Final = ("column_bounds_", "row_bound_", "row_unit_")  # that rows keep when they are multiplied
UNPENALISED: Final = ("least_squares_", "maximum_likelihood_", "standard_errors_")  # what intervals are made of
# receipts without weights, persons and a wish stay what they were
_LEFT_OUT_IF: Final = {
    "class_weight": None, "max_sample_weight": None, "max_rows_per_group": None, "objective": "probability",
}  # fmt: skip
_DTYPES: Final = {"text": np.str_, "integer": np.int64, "number": np.float64, "boolean": np.bool_, "mixed": object}
_KINDS: Final = {"U": "text", "i": "integer", "u": "integer", "f": "number", "b": "boolean", "O": "mixed"}


def arguments_of(estimator: Any) -> dict[str, Any]:
    """Return the constructor arguments as plain data, without the seed, which would take the noise away."""
    return {
        name: encode_or_write(value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in LEFT_OUT and not (name in _LEFT_OUT_IF and encode_or_write(value) == _LEFT_OUT_IF[name])
    }


def fitted_values(estimator: Any) -> dict[str, Any]:
    """Return what `fit` left in the model as plain data: all that predictions and intervals are made of."""
    fitted: dict[str, Any] = {
        "n_features_in_": int(estimator.n_features_in_),
        "n_iter_": int(estimator.n_iter_),
        "coef_": encode(estimator.coef_),
        "intercept_": encode(estimator.intercept_),
    }
    if getattr(estimator, "data_norm", None) == "auto":  # else it is a parameter
        fitted["data_norm_"] = encode(estimator.data_norm_)
    for name in (*BOUNDS, *UNPENALISED):
        if getattr(estimator, name, None) is not None:
            fitted[name] = encode(getattr(estimator, name))
    if hasattr(estimator, "classes_"):
        fitted["classes_"] = encode_classes(estimator.classes_)
    if hasattr(estimator, "feature_names_in_"):
        fitted["feature_names_in_"] = [str(name) for name in estimator.feature_names_in_]
    return fitted


def model_digest(estimator: Any) -> str:
    """Return the SHA-256 of the canonical text of `fitted_values`: the entry ``fitted`` of the model file."""
    return digest(fitted_values(estimator))


def encode_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Return the list of classes as plain data; a kind that no model file can hold is written out as text."""
    kind = _KINDS.get(classes.dtype.kind, str(classes.dtype))
    return {"kind": kind, "values": [encode_or_write(name) for name in classes]}


def decode_classes(entry: Mapping[str, Any]) -> NDArray[Any]:
    if entry["kind"] not in _DTYPES:
        raise ModelFormatError(f"classes_ are of the unknown kind {entry['kind']!r}: update sottovoce.")
    values = decode(entry["values"])
    classes: NDArray[Any] = np.array(values, dtype=_DTYPES[entry["kind"]])
    if classes.ndim != 1 or len(classes) < 2:
        raise ModelFormatError(f"classes_ must list at least two classes; got {values!r}: damaged file.")
    return classes
