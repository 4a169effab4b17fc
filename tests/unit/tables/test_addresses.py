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
from sottovoce.tables.addresses import _opened, found_files
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


def opened(path: object, options: dict) -> sv.ParquetTable:
    return sv.ParquetTable(path, target="y", filesystem=fs.S3FileSystem(**options))


def test_a_folder_in_s3_is_the_table_that_was_written(store):
    table = opened("people/2026", store)
    assert table.shape == (900, 2)
    np.testing.assert_array_equal(matrix(table), X)
    np.testing.assert_array_equal(table.labels(), Y)
    assert repr(table) == "ParquetTable('s3://people/2026/part-0.parquet' and 2 more, 900 rows x 2 columns)"
    again = pickle.loads(pickle.dumps(table))  # as it is sent to a worker
    np.testing.assert_array_equal(matrix(again), X)


@pytest.mark.parametrize(
    ("path", "rows"),
    [
        ("people/2026/part-1.parquet", slice(300, 600)), ("people/2026/part-[12].parquet", slice(300, 900)),
        (["people/2026/part-2.parquet", "people/2026/part-0.parquet"], np.r_[600:900, 0:300]),
        ("people/**/part-9.parquet", slice(0, 10)),
    ],
)  # fmt: skip
def test_paths_lists_and_patterns_of_a_store(store, path, rows):
    np.testing.assert_array_equal(matrix(opened(path, store)), X[rows])


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_an_address_finds_its_keys_as_the_tools_of_the_store_do(store, monkeypatch, scheme):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", store["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{store['endpoint_override']}")
    names = [f"{scheme}://people/2026/part-{part}.parquet" for part in (2, 0)]
    np.testing.assert_array_equal(matrix(sv.ParquetTable(names, target="y")), X[np.r_[600:900, 0:300]])


@pytest.mark.parametrize(
    "address",
    [f"AKIA:{SECRET}@people/a", f"people/a?secret_key={SECRET}", f"people?secret_key={SECRET}", f"b/a?X-Key={SECRET}"],
)
def test_an_address_with_a_key_is_refused_without_it(address):
    with pytest.raises(ParameterError, match="takes neither keys nor options") as told:
        sv.ParquetTable(f"s3://{address}")
    assert SECRET not in str(told.value)


def test_an_object_that_was_replaced_is_refused_also_with_the_same_size(store):
    put(store, "people/changing/replaced.parquet", table_of(slice(0, 300)), compression="none")
    table = opened("people/changing/replaced.parquet", store)
    before = table._pieces[0].stamp
    put(store, "people/changing/replaced.parquet", table_of(slice(300, 600)), compression="none")
    after = opened("people/changing/replaced.parquet", store)._pieces[0].stamp
    assert before[0] == after[0] and before != after  # as many bytes, another object
    for read in (table.labels, lambda: matrix(table)):
        with pytest.raises(
            TableError, match=r"s3://people/changing/replaced\.parquet: the file is not the one that was opened"
        ):
            read()


def test_what_is_not_there_is_said_by_its_address(store):
    with pytest.raises(TableError, match=r"^s3://people/2027: there is no such file\.$"):
        opened("people/2027", store)
    with pytest.raises(TableError, match=r"^s3://people/2027/\*\.parquet: (no file fits|there is no such file)"):
        opened("people/2027/*.parquet", store)
    put(store, "people/2026.txt", table_of(slice(0, 1)))
    with pytest.raises(TableError, match=r"^s3://people: the folder holds no file .* s3://people/\*\*/\*\.parquet"):
        opened("people", store)
    with pytest.raises(ParameterError, match="filesystem says where path is"):
        opened("s3://people/2026", store)
    with pytest.raises(ParameterError, match=r"filesystem must be one of pyarrow\.fs; got dict"):
        sv.ParquetTable("people/2026", filesystem=store)


class Denied(BaseHTTPRequestHandler):
    """Refuses everything, and repeats what it was asked with."""

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        body = f"<Error><Code>AccessDenied</Code><Message>http://x/y?sig={SECRET} is denied</Message></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("path", ["people/2026/part-0.parquet", "people/2026/*.parquet"])
def test_a_denied_key_is_an_error_without_the_key(path):
    with HTTPServer(("127.0.0.1", 0), Denied) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with pytest.raises(TableError, match=r"^s3://people/2026.*ACCESS_DENIED") as told:
                opened(path, options_for(server.server_port))
        finally:
            server.shutdown()
    assert SECRET not in str(told.value)


def test_nobody_there():
    with pytest.raises(TableError, match=r"^s3://people/a\.parquet: cannot read: .*NETWORK_CONNECTION"):
        opened("people/a.parquet", options_for(closed_port()))


FORMS = [  # what an address has before the path, and what the store's path begins with
    ("abfs://people@account.dfs.core.windows.net/", "people/"),
    ("abfss://account.blob.core.windows.net/people/", "people/"),
    ("s3://people/", "people/"),
    ("hdfs://user@server:8020", ""),  # whose paths begin at the root
]


@pytest.mark.parametrize(("before", "root"), FORMS, ids=[before for before, _ in FORMS])
@pytest.mark.parametrize("inside", ["2026/b.parquet", "2026", "2026/?.parquet", "**/b.parquet", "", "*.parquet"])
def test_an_address_of_every_form_is_a_path_of_its_store(tmp_path, monkeypatch, before, root, inside):
    """The store is a folder of this machine here."""
    (tmp_path / "people" / "2026").mkdir(parents=True)
    for name in ("a.parquet", "2026/b.parquet"):
        pq.write_table(table_of(slice(0, 3)), tmp_path / "people" / name)
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    start = "" if "account.blob" in before else "people/"  # what `_opened` says of them
    if before.startswith("hdfs"):
        store, start, before, root = fs.LocalFileSystem(), "/", f"{before}{tmp_path}/people/", f"{tmp_path}/people/"
    monkeypatch.setattr("sottovoce.tables.addresses._opened", lambda *address: (store, start))
    (file,) = found_files(before + inside, ".parquet")
    name = "2026/b.parquet" if inside[:4] in ("2026", "**/b") else "a.parquet"
    assert (file.path, file.shown) == (root + name, before + name)
    assert sv.ParquetTable(before + inside, target="y").shape == (3, 2)


@pytest.mark.skipif(not hasattr(fs, "AzureFileSystem"), reason="this pyarrow was built without Azure")
@pytest.mark.parametrize("address", [before for before, _ in FORMS if "windows.net" in before])
def test_an_account_of_azure_is_in_the_address(address):
    found, root = _opened("abfs", address.split("/")[2], "")
    assert found.type_name == "abfs" and root == ("people/" if "@" in address else "")


def test_an_unknown_kind_of_address():
    with pytest.raises(ParameterError, match=r"^nobody://x: files are read from paths and s3://, gs://, ") as e:
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
