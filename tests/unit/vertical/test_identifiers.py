"""Canonical identifiers: one text for one person, whatever the type; faults by position, never by value."""

import datetime
import decimal
import json
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sottovoce.exceptions import DataError, ParameterError
from sottovoce.vertical.requests.alignment import PsiClient, PsiServer, read_announcement
from sottovoce.vertical.requests.identifiers import canonical_identifiers
from support.containers import CONTAINERS, held, same

NAME = "identifiers['bank']"


def canonical(values):
    return canonical_identifiers(NAME, values).to_pylist()


FORMS = [
    [17, None, 4], [17.0, float("nan"), 4.0], ["17", None, "4"], [b"17", None, b"4"], ["17", "", 4],
    [17.0, pd.NA, np.int8(4)], [np.str_("17"), pd.NaT, np.float32(4)], [np.longdouble(17), "", b"4"],
    ["17", np.datetime64("NaT"), 4],
]  # fmt: skip


def is_missing(entry):
    return entry is np.ma.masked or bool(pd.isna(entry))


@pytest.mark.parametrize("name", [name for name in CONTAINERS if not name.startswith(("dask", "boolean"))])
def test_one_form_for_all_types(name):
    """In every container that holds the entries as they are."""
    read = []
    for form in FORMS:
        try:
            given = CONTAINERS[name](form)
        except Exception:
            continue
        entries = zip(held(given), form, strict=True)
        if all((is_missing(one) and is_missing(other)) or same(one, other) for one, other in entries):
            read.append(canonical(given))
    assert read and read == [["17", None, "4"]] * len(read)


@pytest.mark.parametrize(
    "values",
    [
        np.array(["17", "", "4"]), np.array([b"17", b"", b"4"]), np.array([17.0, np.nan, 4.0], np.float16),
        np.array([17.0, np.nan, 4.0], np.longdouble), pd.Series(["17", None, 4], dtype=object, index=[5, 5, 1]),
        pd.Series([b"17", None, b"4"], dtype=pd.ArrowDtype(pa.binary())), pa.array(["17", None, "4"], pa.string_view()),
        pa.array([b"17", None, b"4"], pa.large_binary()),
    ],
)  # fmt: skip
def test_other_widths_and_orders(values):
    assert canonical(values) == ["17", None, "4"]


def test_text_is_kept_as_it_is():
    texts = ["017", " 17", "17.0", "A", "a", "\u00e9", "e\u0301", "nan", "None", "17\n", "x\0y"]
    assert canonical(texts) == texts
    assert canonical(pd.Series(texts)) == texts


def test_whole_numbers_of_any_size_and_sign():
    assert canonical([2**200, -5, 0, -0.0]) == [str(2**200), "-5", "0", "0"]
    assert canonical(np.array([2**64 - 1], np.uint64)) == [str(2**64 - 1)]
    assert canonical(np.array([7], ">i4")) == ["7"]
    assert canonical(np.arange(10)[::3]) == ["0", "3", "6", "9"]
    assert canonical(range(2)) == ["0", "1"]


@pytest.mark.parametrize(
    "values", [[], (), np.array([]), pa.chunked_array([], pa.string()), pd.Series([], dtype=object)]
)
def test_empty(values):
    assert canonical(values) == []


@pytest.mark.parametrize(
    "values",
    [
        [None, float("nan")],
        pa.nulls(2),
        pa.nulls(2, pa.bool_()),
        np.array(["NaT", "NaT"], "datetime64[ns]"),
        pd.Series([None, None], dtype="boolean"),
        pd.Series([pd.NaT, pd.NaT]),
    ],
)
def test_all_missing_is_no_error_whatever_the_type(values):
    assert canonical(values) == [None, None]


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.float16])
@pytest.mark.parametrize("as_array", [True, False])
def test_floats_that_may_have_been_rounded_are_refused(kind, as_array):
    bits = {float: 53, np.float64: 53, np.float32: 24, np.float16: 11}[kind]
    largest = 2**bits - 1
    wrap = (lambda values: np.array(values, kind)) if as_array else (lambda values: [kind(value) for value in values])
    assert canonical(wrap([largest, -largest])) == [str(largest), str(-largest)]
    for wrong in (2**bits, -(2**bits), 2.5, float("inf"), -float("inf")):
        with pytest.raises(
            DataError, match=rf"identifiers\['bank'\]\[1\] is a float, and no whole number below 2\*\*{bits}"
        ):
            canonical(wrap([1, wrong]))


SECRET = "geheim"


@pytest.mark.parametrize(
    ("values", "row", "fault"),
    [
        ([SECRET, True], 1, "is of type bool"),
        ([1, False], 1, "is of type bool"),
        ([np.bool_(True)], 0, "is of type bool"),
        (np.array([True]), 0, "is of type bool"),
        (pd.Series([None, True], dtype="boolean"), 1, "is of type bool"),
        (pa.array([None, True]), 1, "is of type bool"),
        ([[SECRET]], 0, "is of type list"),
        ([None, (SECRET, 1)], 1, "is of type tuple"),
        ([{SECRET: 1}], 0, "is of type dict"),
        (pd.MultiIndex.from_tuples([(SECRET, 1)]), 0, "is of type tuple"),
        (pa.array([None, [SECRET]]), 1, "is of type list"),
        (pa.array([{"a": SECRET}]), 0, "is of type dict"),
        ([SECRET, datetime.date(2020, 1, 1)], 1, "is of type date"),
        (pd.date_range("2020", periods=1), 0, "is of type datetime64"),
        (pd.Series(pd.date_range("2020", periods=1, tz="UTC")), 0, "is of type Timestamp"),
        ([decimal.Decimal(3)], 0, "is of type Decimal"),
        ([SECRET, 10**400], 1, "is a number of more than 1024 bits"),
        ([SECRET, 10**5000], 1, "is a number of more than 1024 bits"),
        ([SECRET, "x\ud800"], 1, "is not a valid Unicode text"),
        ([1, "x\ud800"], 1, "is not a valid Unicode text"),
        (np.array([SECRET, "x\ud800"]), 1, "is not a valid Unicode text"),
        ([SECRET.encode(), b"\xff"], 1, "is not a valid Unicode text"),
        (np.array([SECRET.encode(), b"\xff"]), 1, "is not a valid Unicode text"),
        (pa.array([SECRET.encode(), b"\xff"]), 1, "is not a valid Unicode text"),
        (pd.Series([SECRET, None, True], dtype="category"), 2, "is of type bool"),
        (pd.Series(pd.interval_range(0, 2)), 0, "is of type Interval"),
    ],
)
def test_faults_name_the_position_and_not_the_value(values, row, fault):
    with pytest.raises(DataError) as caught:
        canonical(values)
    assert str(caught.value).startswith(f"identifiers['bank'][{row}] {fault}")
    # the whole report of the error, with what caused it, as a log would hold it
    report = "".join(traceback.format_exception_only(caught.value))
    for chained in (caught.value.__cause__, None if caught.value.__suppress_context__ else caught.value.__context__):
        report += str(chained)
    assert SECRET not in report
    assert "2020" not in report


def test_an_array_of_a_type_that_names_nobody_is_refused_as_a_whole():
    with pytest.raises(ParameterError, match=r"^identifiers\['bank'\] must hold .*; got an array of complex128\.$"):
        canonical(np.array([1j]))


@pytest.mark.parametrize(
    "values",
    [
        SECRET, SECRET.encode(), {SECRET}, {SECRET: 1}, None, 3, iter([SECRET]), np.array([[SECRET]]), np.array(SECRET),
        pd.DataFrame({"a": [SECRET]}), pl.DataFrame({"a": [SECRET]}), pa.table({"a": [SECRET]}), bytearray(b"abc"),
    ],
    ids=lambda values: type(values).__name__,
)  # fmt: skip
def test_what_is_no_array_of_one_dimension(values):
    with pytest.raises(
        ParameterError, match=r"identifiers\['bank'\] must (have one dimension|be a list or an array)"
    ) as caught:
        canonical(values)
    assert SECRET not in str(caught.value)


library = pytest.importorskip(
    "private_set_intersection.python", reason="the package openmined-psi (extra [vertical]) is not installed"
)

CLIENT = ["geheim-1", "b", "geheim-3", "x\0y", "\u00e9", "z" * 3000]
SERVER = ["nein", "geheim-3", "\u00e9", "geheim-1", "e\u0301"]


def exchange(client, server):
    setup, request = server.setup(), client.request()
    return setup, request, server.respond(request)


def test_messages_hold_no_identifier_and_say_nothing_by_their_order():
    rng = np.random.default_rng(0)
    mine = [f"geheim-{k:04d}" for k in range(200)]
    theirs = [mine[k] for k in rng.permutation(200)]
    client, server = PsiClient(mine), PsiServer(theirs)
    setup, request, response = exchange(client, server)
    for message in (setup, request, response):
        assert b"geheim" not in message
    assert "geheim" not in repr(client) + repr(server)
    points = list(library.ServerSetup.FromString(setup).raw.encrypted_elements)
    assert points == sorted(points)  # the sorted order of random points
    # with the key of the client, the request can be put beside the identifiers: its order must be another in each run
    again = PsiClient(mine)
    again._cipher, again._asked = client._cipher, client._asked
    first, second = (
        list(library.Request.FromString(message).encrypted_elements) for message in (request, again.request())
    )
    assert first != second  # equal with probability 1/200!
    assert sorted(first) == sorted(second)


def test_keys_are_new_in_each_object():
    assert PsiServer(SERVER).setup() != PsiServer(SERVER).setup()
    points = [
        set(library.Request.FromString(PsiClient(CLIENT).request()).encrypted_elements) for _ in range(2)
    ]  # fmt: skip
    assert not points[0] & points[1]


def test_a_setup_with_false_positives_is_refused():
    client, server = PsiClient(CLIENT), PsiServer(SERVER)
    _, _, response = exchange(client, server)
    for structure in (library.DataStructure.GCS, library.DataStructure.BLOOM_FILTER):
        rounded = server._cipher.CreateSetupMessage(0.5, 1, SERVER, structure).SerializeToString()
        with pytest.raises(DataError, match="would admit false positives"):
            client.intersect(rounded, response)
    with pytest.raises(DataError, match="would admit false positives"):
        client.intersect(b"", response)


@pytest.mark.parametrize("damaged", [b"\xff\xff\xff", "text", None])
def test_damaged_messages(damaged):
    client, server = PsiClient(CLIENT), PsiServer(SERVER)
    setup, _, response = exchange(client, server)
    with pytest.raises(DataError, match="the request message cannot be read"):
        server.respond(damaged)
    with pytest.raises(DataError, match="the setup message cannot be read"):
        client.intersect(damaged, response)
    with pytest.raises(DataError, match="the response message cannot be read"):
        client.intersect(setup, damaged)
    with pytest.raises(DataError, match="the announcement is not a list of texts"):
        read_announcement(damaged)


def test_messages_that_do_not_fit():
    client, server = PsiClient(CLIENT), PsiServer(SERVER)
    setup, _, _ = exchange(client, server)
    with pytest.raises(DataError, match="the response is for 129 points, the request had 135"):
        client.intersect(setup, server.respond(PsiClient(["a"]).request()))
    off_the_curve = library.Response()
    off_the_curve.encrypted_elements.extend([b"\x02" + bytes([k]) + b"\xff" * 31 for k in range(135)])
    with pytest.raises(DataError, match="not a point of the curve"):
        client.intersect(setup, off_the_curve.SerializeToString())
    request = library.Request(reveal_intersection=True)
    request.encrypted_elements.append(b"\x02" + b"\xff" * 32)
    with pytest.raises(DataError, match="the request is damaged"):
        server.respond(request.SerializeToString())
    with pytest.raises(DataError, match="the request is damaged, or asks for a size only"):
        server.respond(library.Request(reveal_intersection=False).SerializeToString())


@pytest.mark.parametrize(
    ("announcement", "fault"),
    [
        (json.dumps(["geheim-3", "geheim-1"]), "is not sorted"),
        (json.dumps(["geheim-1", "geheim-1"]), "repeats an identifier"),
        (json.dumps(["geheim-1", 3]), "is not a list of texts"),
        (json.dumps({"geheim-1": 1}), "is not a list of texts"),
        (json.dumps(["geheim-1", "\ud800"]), "is not a list of texts"),
        ("[" * 100_000, "is not a list of texts"),
    ],
)
def test_wrong_announcements_never_misalign(announcement, fault):
    with pytest.raises(DataError, match=fault) as caught:
        read_announcement(announcement.encode())
    assert "geheim" not in "".join(traceback.format_exception_only(caught.value))
