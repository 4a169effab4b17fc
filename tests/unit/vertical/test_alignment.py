"""Alignment of the rows of several parties: rows, counts, bytes, and messages without identifiers."""

import builtins
import dataclasses
import logging
import traceback

import numpy as np
import pandas as pd
import pytest

from sottovoce.exceptions import DataError, ParameterError
from sottovoce.vertical import InProcessParties, Party
from sottovoce.vertical.alignment import align_over
from sottovoce.vertical.alignment.aligned import common_rows

BANK = pd.Series([17, None, 4, 23, 8])
SHOP = ["23", "17", "", "99", b"4"]
LABORATORY = np.array(["4", "5", "17", "5"])


def test_nobody_in_common():
    told = "nobody is in common.*usable.*'a' 2 of 2 rows.*'b' 0 of 1 rows.*leading zeros, case and spaces"
    with pytest.raises(DataError, match=told):
        common_rows({"a": ["1", "2"], "b": [None]})


@pytest.mark.parametrize(
    ("identifiers", "options", "fault"),
    [
        ({"a": ["1"]}, {}, "an alignment needs at least two parties with identifiers; got 1"),
        ({}, {}, "at least two parties with identifiers; got 0"),
        ({"a": ["1"], "b": "1"}, {}, r"ids of party 'b' must be a list or an array"),
        ({"a": ["1"], "b": None}, {}, r"ids of party 'b' must be a list or an array .* NoneType"),
        ({"a": ["1"], "b": ["1"]}, {"duplicates": "first"}, "duplicates must be one of 'error', 'drop'; got 'first'"),
    ],
)
def test_wrong_arguments(identifiers, options, fault):
    with pytest.raises(ParameterError, match=fault):
        common_rows(identifiers, **options)


@pytest.mark.parametrize("form", [str, str.encode, lambda text: int(text[6:])], ids=["text", "bytes", "number"])
def test_no_identifier_is_shown_anywhere(form, caplog, capsys):
    """Sentinels in text, bytes and numbers: not in reprs, reports, errors or logs."""
    caplog.set_level(logging.DEBUG)
    ids = [form(f"geheim{k}") for k in range(90017, 90037)]

    def shown(value):
        text = repr(value) + str(value)
        return "geheim" in text or any(str(k) in text for k in range(90017, 90037))

    rows, report = common_rows({"bank": ids, "shop": ids[:15][::-1]})
    for value in (report, report.summary(), report.parties, dataclasses.asdict(report), rows):
        assert not shown(value)
    wrong = [
        ({"bank": [*ids, ids[0]], "shop": ids}, "share 1 identifier"),
        ({"bank": ids[:5], "shop": ids[5:]}, "nobody"),
        ({"bank": [*ids, True], "shop": ids}, "bool"),
        ({"bank": [*ids, [ids[0]]], "shop": ids}, "list"),
        ({"bank": [*ids, 90017.5], "shop": ids}, "float"),
        ({"bank": np.array([90017.5]), "shop": ids}, "float"),
        ({"bank": pd.Series([*ids, True], dtype="category"), "shop": ids}, "bool"),
        ({"bank": [*ids, "geheim\ud800"], "shop": ids}, "Unicode"),
        ({"bank": {ids[0]}, "shop": ids}, "type set"),
        ({"bank": ids[0], "shop": ids}, "type"),
    ]
    for identifiers, fault in wrong:
        with pytest.raises((DataError, ParameterError), match=fault) as caught:
            common_rows(identifiers)
        error = caught.value
        # what a log would print: the chain of causes, without the lines of source
        chain = "".join(
            line for line in traceback.TracebackException.from_exception(error).format() if "File" not in line
        )
        assert not shown(chain)
        assert not shown(error)
    assert caplog.text == ""
    assert "".join(capsys.readouterr()) == ""


def test_a_missing_package_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("private_set_intersection"):
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        ParameterError, match=r"private set intersection needs the package openmined-psi: install sottovoce\[vertical\]"
    ):
        align_over(InProcessParties([Party(np.ones((1, 1)), ["1"], name=name) for name in ("a", "b")]))
