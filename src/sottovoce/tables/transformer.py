"""SchemaEncoder: tables as a schema describes them, as a scikit-learn transformer that learns nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin

from sottovoce.exceptions import ParameterError, SchemaError, TableError
from sottovoce.tables.schema import Features, Schema
from sottovoce.tables.table import Table


class SchemaEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Turns the columns of a table into numbers by public facts alone, for use before a private model.

    A number between public bounds becomes one feature in [-1, 1]; a category or a bin becomes a feature that is 0 or 1.
    Nothing is learned: `fit` reads the names of the columns and no value, so the guarantee of the model that follows
    covers the whole pipeline. `StandardScaler`, `SimpleImputer` and `OneHotEncoder` without categories do learn.

    Parameters
    ----------
    schema : dict, Schema, str or Path
        Public. What is known about the columns without looking at the data. A dict such as ``{"age": (17, 90), "sex":
        ["F", "M"]}`` is read by `sottovoce.tables.Schema.from_columns`: bounds in a tuple, categories in a list, or a
        dict with the keys of a schema file, such as ``{"bounds": (0, 1e6), "scale": "log", "missing": "indicator"}``. A
        str or Path names a schema file; it is read by `fit`.
    sparse_output : bool or "auto", default="auto"
        Whether rows come as CSR. ``"auto"``: when there are more than 32 features, and less than a fifth of a row can
        be filled; in a `DPPipeline` whose scaler moves columns, never. `set_output` needs False.
    dtype : float64 or float32, default=float64
        Type of the entries.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns seen by `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names.

    Notes
    -----
    Privacy: each row is encoded by itself with public facts. With k encoded columns a row has a norm of at most
    sqrt(k), whatever the data: ``data_norm``. A cell that breaks what the schema says (text where a number should
    be, a number beyond bounds under ``outside="error"``, a category that is not listed under ``unknown="error"``) is an
    error that quotes the cell: it is for the eyes of those who may see the data. Encode once, without a model, to find
    such cells.

    Examples
    --------
    >>> import pandas as pd
    >>> import sottovoce as sv
    >>> people = pd.DataFrame({"age": [17, 90, None], "sex": ["F", "M", "M"]})
    >>> encoder = sv.SchemaEncoder({"age": {"bounds": (17, 90), "missing": "indicator"}, "sex": ["F", "M"]})
    >>> encoder.fit_transform(people)
    array([[-1.,  0.,  1.,  0.],
           [ 1.,  0.,  0.,  1.],
           [ 0.,  1.,  0.,  1.]])
    >>> list(encoder.get_feature_names_out()), round(encoder.data_norm, 3)
    (['age', 'age is missing', 'sex=F', 'sex=M'], 1.414)
    """

    def __init__(
        self,
        schema: Mapping[str, Any] | Schema | str | Path,
        *,
        sparse_output: bool | str = "auto",
        dtype: npt.DTypeLike = np.float64,
    ) -> None:
        self.schema = schema
        self.sparse_output = sparse_output
        self.dtype = dtype

    @property
    def data_norm(self) -> float:
        """The public bound on the norm of an encoded row: the square root of the number of encoded columns."""
        return self.described().data_norm

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that the columns are there; no value is read.

        Parameters
        ----------
        X : pandas, polars or pyarrow frame, or array of shape (n_samples, n_columns)
            An array has the feature columns of the schema, in its order.
        y : object
            Not used.

        Returns
        -------
        self

        Raises
        ------
        SchemaError, ParameterError
            If the schema or another parameter is wrong.
        TableError
            If a column is missing.
        """
        if self.sparse_output not in ("auto", True, False):
            raise ParameterError(f'sparse_output must be True, False or "auto"; got {self.sparse_output!r}.')
        if np.dtype(self.dtype) not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise ParameterError(f"dtype must be float64 or float32; got {self.dtype!r}.")
        described = self._read()
        names = _table(X, described).column_names
        self._described = described  # a file may move; and the model must read tables as it was trained on them
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def transform(self, X: Any) -> Features:
        """Encode the feature columns; further columns do not matter, nor does their order.

        Parameters
        ----------
        X : pandas, polars or pyarrow frame, or array of shape (n_samples, n_columns)

        Returns
        -------
        ndarray or scipy.sparse.csr_matrix of shape (n_samples, n_features_out)

        Raises
        ------
        TableError
            If a column is missing, or a cell breaks what the schema says; the message names row, column and remedy.
        """
        schema = self.described()
        rows = schema.features(_table(X, schema), dtype=self.dtype)
        if self.sparse_output == "auto" or sp.issparse(rows) == self.sparse_output:
            return rows
        return sp.csr_matrix(rows) if self.sparse_output else rows.toarray()  # type: ignore[union-attr]

    def labels(self, X: Any) -> npt.NDArray[Any]:
        """Return the target column of a frame: classes with the type they have in the schema, or numbers.

        Parameters
        ----------
        X : pandas, polars or pyarrow frame

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        schema = self.described()
        return schema.labels(_table(X, schema))

    def groups(self, X: Any) -> npt.NDArray[np.object_]:
        """Return whose row each is, from the unit column of a frame, for ``fit(..., groups=)``; None where missing.

        Parameters
        ----------
        X : pandas, polars or pyarrow frame

        Returns
        -------
        ndarray of shape (n_samples,)

        Raises
        ------
        SchemaError
            If the schema names no unit.
        """
        schema = self.described()
        return schema.groups(_table(X, schema))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the names of the features, such as ``age``, ``age<25``, ``sex=F`` and ``age is missing``.

        Parameters
        ----------
        input_features : object
            Not used: the schema has the names.

        Returns
        -------
        ndarray of str
        """
        return np.array(self.described().feature_names, dtype=object)

    def described(self) -> Schema:
        """Return the schema that tables are read with: the one that `fit` saw, or the one that is given."""
        return getattr(self, "_described", None) or self._read()

    def _read(self) -> Schema:
        if isinstance(self.schema, Schema):
            schema = self.schema
        elif isinstance(self.schema, (str, Path)):
            schema = Schema.from_toml(self.schema)
        elif isinstance(self.schema, Mapping):
            schema = Schema.from_columns(self.schema)
        else:
            raise SchemaError(
                'schema must be a dict such as {"age": (17, 90), "sex": ["F", "M"]}, a Schema, or the path of a schema '
                f"file; got {self.schema!r}."
            )
        schema.require_confirmed()
        return schema

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True  # the schema says what the columns are, texts too
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags


def _table(X: Any, schema: Schema) -> Table:
    names = [column.name for column in schema.feature_columns]
    if isinstance(X, Table):
        table = X
    elif isinstance(X, (np.ndarray, list)):
        array = np.asarray(X, dtype=None if isinstance(X, np.ndarray) else object)
        if array.ndim != 2 or array.shape[1] != len(names):
            raise TableError(
                f"an array of shape {array.shape} has no names: it needs one column for each of the {len(names)} that "
                f"the schema describes as features ({', '.join(names)}), in their order. Give a data frame with names."
            )
        table = Table.from_columns(names, array.T)
    else:
        table = Table.from_frame(X)
    for name in names:
        table.cells(name)  # says which columns there are
    return table
