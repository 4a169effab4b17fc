"""Store a trained model as JSON, and read it back: plain data only, nothing in the file is ever executed."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sottovoce._files import named_errors, write_whole
from sottovoce._numerics import Vector
from sottovoce._plain_data import decode, encode, parsed
from sottovoce._validation import magnitude, number, whole_number
from sottovoce.estimators.base import LEFT_OUT, arguments_of, decode_classes, fitted_values
from sottovoce.estimators.classifier import DPLinearClassifier
from sottovoce.estimators.linear import DPLinearEstimator
from sottovoce.estimators.models import ESTIMATORS
from sottovoce.estimators.pipeline import DPPipeline
from sottovoce.exceptions import ModelFormatError, ParameterError, SottovoceError
from sottovoce.privacy.guarantee import Guarantee
from sottovoce.tables.schema import Schema

_FORMAT: Final = "sottovoce-model"
_VERSION: Final = 1
# the other JSON files of ours: what each is, and what to do with it
_OTHERS: Final = {
    "sottovoce-receipt": "the receipt of a model, not the model itself. Give the model's own file.",
    **dict.fromkeys(
        ("sottovoce-receipt-sum", "sottovoce-receipt-verification"),
        "a report about receipts. Give the model's own file.",
    ),
    "sottovoce-evaluation": "an evaluation of a model, not the model itself. `sottovoce show` shows its receipt.",
    "sottovoce-local-model": "a model of private reports: `sottovoce local predict` applies it.",
    "sottovoce-local-protocol": "the protocol of a survey: `sottovoce local plan` and `randomize` take it.",
    "sottovoce-vertical-part": (
        "one party's part of a model: its coefficients are in it, to read in any editor, and the receipt is "
        "NAME.receipt.json beside it."
    ),
    "sottovoce-vertical-coordinator": (
        "the coordinator's part of a model over parties: `sottovoce vertical predict` applies it, and the receipt is "
        "guarantee.json beside it."
    ),
}


def save_model(estimator: DPLinearEstimator | DPPipeline, path: str | Path, *, schema: Schema | None = None) -> None:
    """Write a trained model to a JSON file, whole or not at all; an existing file is replaced.

    Parameters
    ----------
    estimator : DPLinearEstimator or DPPipeline
        Trained; one of sottovoce's, a search aside. Of a pipeline what its ``folded()`` returns is written, with the
        schema that it starts with.
    path : str or Path
        Its folder must exist.
    schema : Schema or None, default=None
        The schema of the table it was trained on: with it, the model can read such tables by itself.

    Raises
    ------
    ParameterError
        If the estimator is none of sottovoce's, or its classes are neither texts, numbers nor booleans.
    sklearn.exceptions.NotFittedError
        If it is not trained.
    OSError
        If the file cannot be written; what was there before is untouched.

    Notes
    -----
    The file holds what `fit` releases and the public parameters, nothing else of the data. ``random_state`` is not
    stored and is read back as None: whoever had the seed could take the noise away. ``ledger`` and ``dataset`` are not
    stored either.
    """
    write_whole(path, model_to_json(estimator, schema=schema))


def load_model(path: str | Path) -> tuple[DPLinearEstimator, Schema | None]:
    """Read a model file.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    (estimator, schema)
        The trained estimator, which predicts exactly as before, and the schema that was stored with it, or None.

    Raises
    ------
    ModelFormatError
        If the file is missing, damaged, of another kind, or of a newer version; the message says which.
    """
    with named_errors(path, "model", ModelFormatError):
        return model_from_json(Path(path).read_text(encoding="utf-8"))


def model_to_json(estimator: DPLinearEstimator | DPPipeline, *, schema: Schema | None = None) -> str:
    if isinstance(estimator, DPPipeline):
        model = estimator.folded()
        encoder = estimator.encoder()
        return model_to_json(model, schema=encoder.described() if schema is None and encoder is not None else schema)
    kind = ESTIMATORS.get(type(estimator).__name__)
    if type(estimator) is not kind:
        known = ", ".join(ESTIMATORS)
        raise ParameterError(f"only {known} can be stored as a model, or a DPPipeline; got {type(estimator).__name__}.")
    check_is_fitted(estimator)
    if hasattr(estimator, "classes_") and estimator.classes_.dtype.kind not in "UiufbO":
        raise ParameterError(
            f"classes of type {estimator.classes_.dtype} cannot be stored: use texts, numbers or booleans as labels."
        )
    # a parameter of a kind that has no plain form is refused here
    encode({name: value for name, value in estimator.get_params(deep=False).items() if name not in LEFT_OUT})
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "estimator": type(estimator).__name__,
        "parameters": {**arguments_of(estimator), "random_state": None},
        "fitted": fitted_values(estimator),
        "guarantee": tied_to_schema(estimator.guarantee_, schema).to_dict(),
        "schema": None if schema is None else schema.to_dict(),
    }
    # one line an entry: readable, comparable, and a million coefficients do not become a million lines
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in content.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def tied_to_schema(receipt: Guarantee, schema: Schema | None) -> Guarantee:
    """Return the receipt with the text of the schema in it.

    Raises ParameterError if it has the text of another one.
    """
    if schema is None:
        return receipt
    text = schema.to_toml()
    if receipt.schema not in (None, text):
        raise ParameterError("schema is not the one that the receipt of this model names: give that one, or None.")
    return replace(receipt, schema=text)


def model_from_json(text: str) -> tuple[DPLinearEstimator, Schema | None]:
    try:
        content = parsed(text)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(
            f"this is not a model file: it is not JSON ({error}). Give what sottovoce fit wrote."
        ) from None
    _check_format(content)
    try:
        kind = ESTIMATORS.get(content["estimator"])
        if kind is None:
            raise ModelFormatError(
                f"the model is a {content['estimator']!r}; this version of sottovoce knows {', '.join(ESTIMATORS)}. "
                "Update sottovoce."
            )
        estimator = kind(**_decode_parameters(kind, content["parameters"]))
        _set_fitted(estimator, content["fitted"])
        estimator.guarantee_ = Guarantee.from_dict(content["guarantee"])
        schema = None if content["schema"] is None else Schema.from_dict(content["schema"])
    except KeyError as error:
        raise ModelFormatError(
            f"the model file lacks the entry {error}: it is damaged. Train or copy it again."
        ) from None
    except ModelFormatError:
        raise
    except SottovoceError as error:
        raise ModelFormatError(f"the model file does not hold together: {error}") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ModelFormatError(
            f"the model file has an entry of the wrong kind: {error}. Train or copy it again."
        ) from None
    return estimator, schema


def _check_format(content: object) -> None:
    if not isinstance(content, Mapping) or content.get("format") != _FORMAT:
        found = content.get("format") if isinstance(content, Mapping) else None
        if isinstance(found, str) and found in _OTHERS:
            raise ModelFormatError(f"this is {_OTHERS[found]}")
        raise ModelFormatError(
            f"this is not a model file: its format is {found!r} instead of {_FORMAT!r}. Give what sottovoce fit wrote."
        )
    version = content.get("version")
    if version != _VERSION or isinstance(version, bool):
        raise ModelFormatError(
            f"the model file has version {version!r}, this version of sottovoce reads {_VERSION}: update sottovoce."
        )


def _decode_parameters(kind: type[DPLinearEstimator], parameters: Mapping[str, Any]) -> dict[str, Any]:
    known = kind().get_params(deep=False)
    for name in parameters:
        if name not in known:
            raise ModelFormatError(
                f"the model has the parameter {name!r}, unknown to this version of sottovoce: update sottovoce."
            )
    return {name: decode(value) for name, value in parameters.items()}


def _set_fitted(estimator: DPLinearEstimator, fitted: Mapping[str, Any]) -> None:
    """Set the fitted attributes, after a check that their shapes agree."""
    n_features = whole_number("n_features_in_", fitted["n_features_in_"], at_least=1)
    if isinstance(estimator, DPLinearClassifier):
        estimator.classes_ = decode_classes(fitted["classes_"])
        n_models = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
        estimator.intercept_ = _array(fitted, "intercept_", (n_models,))
        estimator.coef_ = _array(fitted, "coef_", (n_models, n_features))
    else:
        estimator.intercept_ = float(decode(fitted["intercept_"]))
        estimator.coef_ = _array(fitted, "coef_", (n_features,))
    if estimator._estimates is not None:
        wanted = (n_features + bool(estimator.fit_intercept),)
        for name in (estimator._estimates, "standard_errors_"):  # files of other solvers have neither
            setattr(estimator, name, _array(fitted, name, wanted) if name in fitted else None)
    if hasattr(estimator, "data_norm"):
        found = fitted["data_norm_"] if estimator.data_norm == "auto" else encode(estimator.data_norm)
        estimator.data_norm_ = magnitude("data_norm_", decode(found))
    for name in ("column_bounds_", "row_unit_"):
        setattr(estimator, name, tuple(_array(fitted, name, (2, n_features))) if name in fitted else None)
    low, high = estimator.column_bounds_ or (0.0, 0.0)
    location, scale = estimator.row_unit_ or (0.0, 1.0)
    if not (np.all(low <= high) and np.isfinite(location).all() and np.all(scale > 0.0) and np.isfinite(scale).all()):
        raise ModelFormatError("column_bounds_ must be lows below highs, and row_unit_ divide by finite numbers > 0.")
    # files of models that shortened rows in training alone have none
    bound = decode(fitted.get("row_bound_"))
    estimator.row_bound_ = None if bound is None else number("row_bound_", bound, above=0.0)
    estimator.n_features_in_ = n_features
    estimator.n_iter_ = whole_number("n_iter_", fitted["n_iter_"], at_least=0)
    if "feature_names_in_" in fitted:
        estimator.feature_names_in_ = np.array(fitted["feature_names_in_"], dtype=object)
        if len(estimator.feature_names_in_) != n_features:
            raise ModelFormatError(
                f"feature_names_in_ has {len(estimator.feature_names_in_)} names instead of {n_features}: damaged file."
            )


def _array(fitted: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> Vector:
    values = np.array(decode(fitted[name]), dtype=np.float64)
    if values.shape != shape:
        raise ModelFormatError(f"{name} has the shape {values.shape} instead of {shape}: damaged file.")
    return values
