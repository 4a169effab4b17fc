"""Tables by address: a store that speaks S3, folders, patterns; no key is ever shown."""

import pickle
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import sottovoce as sv
from sottovoce.exceptions import ParameterError, TableError
from sottovoce.tables.addresses import _Store, found_files
from support.s3_store import SECRET, closed_port, options_for, put, s3_store

X = np.random.default_rng(0).uniform(-1.0, 1.0, (900, 2)).astype(np.float32)
Y = (X.sum(axis=1) > 0.0).astype(np.int64)


def table_of(rows: slice) -> pa.Table:
    return pa.table({"a": X[rows, 0], "b": X[rows, 1], "y": Y[rows]})


def matrix(table: sv.ParquetTable) -> np.ndarray:
    return np.concatenate([block for _, block in table.blocks(1)])


@pytest.fixture(scope="module")
def store():
    with s3_store() as options:
        for part in range(3):
            put(options, f"people/2026/part-{part}.parquet", table_of(slice(300 * part, 300 * part + 300)))
        put(options, "people/2026/deeper/part-9.parquet", table_of(slice(0, 10)))
        yield options


def test_a_folder_in_s3_is_the_table_that_was_written(store):
    table = sv.ParquetTable("s3://people/2026", target="y", storage_options=store)
    assert table.shape == (900, 2)
    np.testing.assert_array_equal(matrix(table), X)
    np.testing.assert_array_equal(table.labels(), Y)
    assert repr(table) == "ParquetTable('s3://people/2026/part-0.parquet' and 2 more, 900 rows x 2 columns)"
    again = pickle.loads(pickle.dumps(table))  # as it is sent to a worker
    np.testing.assert_array_equal(matrix(again), X)


@pytest.mark.parametrize(
    ("address", "rows"),
    [
        ("s3://people/2026/part-1.parquet", slice(300, 600)),
        ("s3a://people/2026/part-1.parquet", slice(300, 600)),
        ("s3://people/2026/part-[12].parquet", slice(300, 900)),
        (["s3://people/2026/part-2.parquet", "s3://people/2026/part-0.parquet"], np.r_[600:900, 0:300]),
        ("s3://people/**/part-9.parquet", slice(0, 10)),
    ],
)
def test_addresses_lists_and_patterns(store, address, rows):
    np.testing.assert_array_equal(matrix(sv.ParquetTable(address, target="y", storage_options=store)), X[rows])


def test_options_may_stand_in_the_address(store):
    query = f"endpoint_override={store['endpoint_override']}&scheme=http&region=us-east-1"
    address = f"s3://{store['access_key']}:{SECRET}@people/2026/part-0.parquet?{query}"
    table = sv.ParquetTable(address, target="y")
    np.testing.assert_array_equal(matrix(table), X[:300])
    assert SECRET not in repr(table) and "AKIA" not in repr(table)
    with pytest.raises(ParameterError, match=r"storage_options and a query .* give all of it in storage_options"):
        sv.ParquetTable(address, storage_options=store)


def test_an_object_that_was_replaced_is_refused_also_with_the_same_size(store):
    put(store, "people/changing/replaced.parquet", table_of(slice(0, 300)), compression="none")
    table = sv.ParquetTable("s3://people/changing/replaced.parquet", target="y", storage_options=store)
    before = table._pieces[0].stamp
    put(store, "people/changing/replaced.parquet", table_of(slice(300, 600)), compression="none")
    after = sv.ParquetTable("s3://people/changing/replaced.parquet", target="y", storage_options=store)._pieces[0].stamp
    assert before[0] == after[0] and before != after  # as many bytes, another object
    for read in (table.refuse_changed, table.labels, lambda: matrix(table)):
        with pytest.raises(
            TableError, match=r"s3://people/changing/replaced\.parquet: the file is not the one that was opened"
        ):
            read()


def test_what_is_not_there_is_said_by_its_address(store):
    with pytest.raises(TableError, match=r"^s3://people/2027: there is no such file\.$"):
        sv.ParquetTable("s3://people/2027", storage_options=store)
    with pytest.raises(TableError, match=r"^s3://people/2027/\*\.parquet: (no file fits|there is no such file)"):
        sv.ParquetTable("s3://people/2027/*.parquet", storage_options=store)
    with pytest.raises(TableError, match=r"^s3://people: the folder holds no file .* s3://people/\*\*/\*\.parquet"):
        put(store, "people/2026.txt", table_of(slice(0, 1)))
        sv.ParquetTable("s3://people", storage_options={**store})
    with pytest.raises(ParameterError, match="storage_options belong to addresses"):
        sv.ParquetTable("a.parquet", storage_options=store)
    with pytest.raises(ParameterError, match=r"do not fit pyarrow\.fs\.S3FileSystem: .*endpoint"):
        sv.ParquetTable("s3://people/2026", storage_options={"endpoint": "x", "secret_key": SECRET})


class Denied(BaseHTTPRequestHandler):
    """Refuses everything, and repeats what it was asked with."""

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        body = f"<Error><Code>AccessDenied</Code><Message>key {SECRET} is denied</Message></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("address", ["s3://people/2026/part-0.parquet", "s3://people/2026/*.parquet"])
def test_a_denied_key_is_an_error_without_the_key(address):
    with HTTPServer(("127.0.0.1", 0), Denied) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(TableError, match=r"^s3://people/2026.*ACCESS_DENIED") as told:
                sv.ParquetTable(address, storage_options=options_for(server.server_port))
        finally:
            server.shutdown()
    assert SECRET not in str(told.value)


def test_nobody_there():
    with pytest.raises(TableError, match=r"^s3://people/a\.parquet: cannot read: .*NETWORK_CONNECTION"):
        sv.ParquetTable("s3://people/a.parquet", storage_options=options_for(closed_port()))


KEY = "c2VjcmV0IGtleQ=="
FORMS = [  # what an address has before the path, what the store's path begins with, how the address is shown
    ("abfs://people/", "people/", "abfs://people/"),
    ("abfss://people@account.dfs.core.windows.net/", "people/", "abfss://people@account.dfs.core.windows.net/"),
    (f"abfs://people:{KEY}@account.dfs.core.windows.net/", "people/", "abfs://people@account.dfs.core.windows.net/"),
    (f"abfs://:{KEY}@account.blob.core.windows.net/people/", "people/", "abfs://account.blob.core.windows.net/people/"),
    (f"abfs://account:{KEY}@people/", "people/", "abfs://people/"),
    (f"s3://{KEY}:{KEY}@people/", "people/", "s3://people/"),
    (f"hdfs://user:{KEY}@server:8020", "", "hdfs://server:8020"),  # whose paths begin at the root
]


@pytest.mark.parametrize(("before", "root", "shown"), FORMS, ids=[shown for *_, shown in FORMS])
@pytest.mark.parametrize("inside", ["2026/b.parquet", "2026", "2026/?.parquet", "**/b.parquet", "", "*.parquet"])
def test_an_address_of_every_form_is_a_path_of_its_store(tmp_path, monkeypatch, before, root, shown, inside):
    """The store is a folder of this machine here."""
    (tmp_path / "people" / "2026").mkdir(parents=True)
    for name in ("a.parquet", "2026/b.parquet"):
        pq.write_table(table_of(slice(0, 3)), tmp_path / "people" / name)
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    if before.startswith("hdfs"):
        store, before, root, shown = (
            fs.LocalFileSystem(),
            *(f"{each}{tmp_path}/people/" for each in (before, root, shown)),
        )
    monkeypatch.setattr("sottovoce.tables.addresses._Store._connected", lambda self: store)
    (file,) = found_files(before + inside, ".parquet")
    name = "2026/b.parquet" if inside[:4] in ("2026", "**/b") else "a.parquet"
    assert (file.path, file.shown) == (root + name, shown + name)
    assert sv.ParquetTable(before + inside, target="y").shape == (3, 2)
    assert file.hidden(f"no {KEY} for {shown}") == f"no {'***' if KEY in before else KEY} for {shown}"


@pytest.mark.skipif(not hasattr(fs, "AzureFileSystem"), reason="this pyarrow was built without Azure")
@pytest.mark.parametrize("address", [before for before, *_ in FORMS if "windows.net" in before])
def test_what_opens_an_account_comes_from_its_address_or_beside_it(monkeypatch, address):
    opened = _Store("abfs", address.partition("://")[2].partition("/")[0], {}, "").filesystem
    assert opened.type_name == "abfs"
    with pytest.raises(ParameterError, match=r"do not fit pyarrow\.fs\.AzureFileSystem"):
        found_files(address, ".parquet", {"no_such_option": KEY})
    monkeypatch.setattr(fs, "AzureFileSystem", lambda **given: given)
    store = _Store("abfs", address.partition("://")[2].partition("/")[0], {"account_key": KEY}, "")
    assert store.filesystem == {"account_name": "account", "account_key": KEY}


def test_an_unknown_kind_of_address():
    with pytest.raises(
        ParameterError, match=r"^nobody://x: files are read from paths and s3://, gs://, abfs://, "
    ) as e:
        sv.ParquetTable(f"nobody://somebody:{SECRET}@x/y.parquet")
    assert SECRET not in str(e.value)


def test_paths_patterns_and_file_addresses_of_this_machine(tmp_path):
    for part in range(2):
        pq.write_table(table_of(slice(450 * part, 450 * part + 450)), tmp_path / f"{part} [x].parquet")
    names = [str(tmp_path / "0 [x].parquet"), str(tmp_path / "1 [x].parquet")]
    assert [each.path for each in found_files(tmp_path / "? *.parquet", ".parquet")] == names
    assert [each.path for each in found_files(names[0], ".parquet")] == names[:1]  # a name that looks like a pattern
    assert [each.path for each in found_files(tmp_path.as_uri(), ".parquet")] == names
    with pytest.raises(TableError, match="no file fits this pattern"):
        found_files(tmp_path / "*.csv", ".parquet")


def test_messages_of_a_split_table_count_rows_of_the_whole(tmp_path):
    holed = np.where(np.arange(900) == 777, np.nan, X[:, 0])
    labels = pa.array(Y, mask=np.arange(900) == 555)
    pq.write_table(pa.table({"a": holed, "y": labels}), tmp_path / "a.parquet", row_group_size=100)
    table = sv.ParquetTable(tmp_path / "a.parquet", target="y")
    for count in (2, 4, 7):  # what they hold is asked in unit/cluster/test_sources.py
        sizes = [len(part) for part in table.split(count)]
        assert len(sizes) == count and sum(sizes) == 900 and max(sizes) - min(sizes) <= 100
    parts = table.split(9)
    assert [part.first_row for part in parts[-1].split(1)] == [800]
    with pytest.raises(sv.exceptions.DataError, match="NaN: row 777, column 'a'"):
        list(parts[7].finite_blocks(1))
    with pytest.raises(TableError, match="row 555 has no label"):
        parts[5].labels()
