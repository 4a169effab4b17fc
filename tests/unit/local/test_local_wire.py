"""Reports as bytes, the store of a device, and what a device has to load."""

import base64
import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest

from sottovoce.exceptions import DataError, ParameterError
from sottovoce.local import Protocol, Randomizer
from sottovoce.local.collector.tokens import TokenKey, make_secret_file, token_hash
from sottovoce.local.device.randomizer import DeviceStore
from sottovoce.local.wire import REPORT_BYTES, Reason, Report, is_token, pack, parse, parse_many, seed_of

PROTOCOL = Protocol(n_features=2, epsilon=1.0, K=16, m=3, b=1.0)
OTHER = Protocol(n_features=2, epsilon=2.0, K=16, m=3, b=1.0)


def test_the_layout():
    raw = pack(PROTOCOL, 0x0102030405060708, 5)
    assert raw == b"LDP1" + PROTOCOL.id + bytes([8, 7, 6, 5, 4, 3, 2, 1, 5, 0])
    assert len(raw) == REPORT_BYTES == 22
    assert parse(raw, PROTOCOL) == Report(0x0102030405060708, 5)


def test_seeds_belong_to_the_token_and_the_protocol():
    seeds = {seed_of(p.id, t) for p in (PROTOCOL, OTHER) for t in (b"", b"a", b"b", b"ab")}
    assert len(seeds) == 8
    raw = Randomizer(PROTOCOL).report([0.1, 0.2], 1, token=b"a")
    assert isinstance(parse(raw, PROTOCOL, token=b"a"), Report)
    assert parse(raw, PROTOCOL, token=b"b") == Reason.SEED
    assert parse(raw[:-1], PROTOCOL) == parse(raw + b"\0", PROTOCOL) == Reason.LENGTH


def test_many_reports_are_read_as_one_by_one():
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(3000):
        raw = bytearray(pack(PROTOCOL, int(rng.integers(0, 2**64, dtype=np.uint64)), int(rng.integers(0, 17))))
        if rng.random() < 0.5:
            raw[rng.integers(22)] ^= int(rng.integers(1, 256))
        rows.append(bytes(raw))
    single = [parse(raw, PROTOCOL) for raw in rows]
    good = [(report.seed, report.index) for report in single if isinstance(report, Report)]
    bad = [reason.value for reason in single if isinstance(reason, Reason)]
    seeds, indices, rejected = parse_many(b"".join(rows), PROTOCOL)
    assert list(zip(seeds.tolist(), indices.tolist(), strict=True)) == good
    assert rejected == {reason: bad.count(reason) for reason in set(bad)}
    assert set(rejected) == {"magic", "protocol", "index"}
    assert 15 in indices and (indices < 16).all()
    assert seeds.dtype == np.uint64


# --- the device -----------------------------------------------------------------------------------------------------


def test_a_device_can_refuse_a_large_epsilon_and_takes_bytes_for_a_token():
    with pytest.raises(ParameterError, match="token must be bytes"):
        Randomizer(PROTOCOL).report([0.0, 0.0], 1, token="a")
    assert Randomizer(OTHER, max_epsilon=2.0).protocol == OTHER
    with pytest.raises(ParameterError, match=r"more than max_epsilon 1\.5"):
        Randomizer(OTHER, max_epsilon=1.5)
    with pytest.raises(ParameterError, match="max_epsilon must be"):
        Randomizer(OTHER, max_epsilon=math.nan)


def test_a_report_is_made_once(tmp_path):
    folder = tmp_path / "new" / "reports"
    mechanism = Randomizer(PROTOCOL)
    first = mechanism.report_once(folder, [0.1, 0.2], 1)
    for x, y in (([0.1, 0.2], 1), ([-0.9, 0.0], -1)):
        assert Randomizer(PROTOCOL).report_once(folder, x, y) == first
    assert mechanism.report([0.1, 0.2], 1) != first
    other = Randomizer(OTHER).report_once(DeviceStore(folder), [0.1, 0.2], 1)
    assert other != first
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(f"{protocol.id.hex()}.report" for protocol in (PROTOCOL, OTHER))
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_a_kept_report_stays_with_its_token(tmp_path):
    mechanism = Randomizer(PROTOCOL)
    first = mechanism.report_once(tmp_path, [0.1, 0.2], 1, token=b"a")
    assert mechanism.report_once(tmp_path, [0.1, 0.2], 1, token=b"a") == first
    with pytest.raises(ParameterError, match="token is not the one"):
        mechanism.report_once(tmp_path, [0.1, 0.2], 1, token=b"b")


def test_of_two_programs_the_first_wins(tmp_path):
    store = DeviceStore(tmp_path)
    mechanism = Randomizer(PROTOCOL)

    def slow():
        mechanism.report_once(tmp_path, [0.1, 0.2], 1)  # another program in between
        return pack(PROTOCOL, 1, 1)

    kept = store.once(PROTOCOL, slow)
    assert kept != pack(PROTOCOL, 1, 1)
    assert kept == mechanism.report_once(tmp_path, [0.1, 0.2], 1)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_store_that_cannot_keep_makes_no_report(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match="No report is made"):
        Randomizer(PROTOCOL).report_once(tmp_path / "file" / "x", [0.1, 0.2], 1)
    store = DeviceStore(tmp_path)
    with pytest.raises(DataError):
        Randomizer(PROTOCOL).report_once(store, [0.1, math.nan], 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]  # nothing is left behind
    store.path(PROTOCOL).write_bytes(b"LDP1")
    with pytest.raises(DataError, match="holds no report of this protocol"):
        Randomizer(PROTOCOL).report_once(store, [0.1, 0.2], 1)


def test_the_device_loads_numpy_and_nothing_else():
    """In a fresh interpreter: read a protocol, make a report, keep it, read it."""
    program = f"""
import sys, tempfile
from sottovoce.local import Protocol, Randomizer
from sottovoce.local.wire import parse
protocol = Protocol.from_json({PROTOCOL.to_json()!r})
with tempfile.TemporaryDirectory() as folder:
    parse(Randomizer(protocol, max_epsilon=1).report_once(folder, [0.1, 0.2], 1, token=b"t"), protocol, token=b"t")
ours = sorted(name for name in sys.modules if name.startswith("sottovoce"))
others = {{name.split(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names) - {{"sottovoce", "__main__"}}
print(",".join(ours))
print(",".join(sorted(others)))
"""
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    ours, others = (line.split(",") for line in result.stdout.splitlines())
    assert others == ["numpy"]
    assert set(ours) == {
        "sottovoce", "sottovoce._files", "sottovoce._lazy", "sottovoce._plain_data", "sottovoce._validation",
        "sottovoce.exceptions", "sottovoce.local", "sottovoce.local.candidates", "sottovoce.local.device",
        "sottovoce.local.device.randomizer", "sottovoce.local.features", "sottovoce.local.odds",
        "sottovoce.local.protocol", "sottovoce.local.wire",
    }  # fmt: skip


def test_the_package_loads_names_when_they_are_used():
    import sottovoce

    assert set(sottovoce.__all__) <= set(dir(sottovoce))
    assert sottovoce.local.Protocol is Protocol
    assert sottovoce.vertical.Party.__name__ == "Party"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sottovoce.nothing


# --- device tokens: only the key's owner makes them, and each has one text --------------------------------------------

KEY = TokenKey(bytes(range(32)), b"protocol")


def test_issued_tokens_are_known():
    tokens = {KEY.issue() for _ in range(100)}
    assert len(tokens) == 100
    for token in tokens:
        assert is_token(token)
        assert len(token) == 48
        assert KEY.knows(token)
        assert not TokenKey(bytes(range(32)), b"protocoL").knows(token)
        assert not TokenKey(bytes(32), b"protocol").knows(token)


def test_every_changed_character_is_noticed():
    token = KEY.issue()
    for place, letter in enumerate(token):
        for other in "Aa0_-.~" + chr(ord(letter) ^ 1):
            if other != letter:
                assert not KEY.knows(token[:place] + other + token[place + 1 :])


def test_a_token_has_one_text():
    """Another check behind the same serial and code would be another token, and a second report."""
    token = KEY.issue()
    content = base64.urlsafe_b64decode(token)
    for place in range(32, 36):
        changed = bytearray(content)
        changed[place] ^= 1
        assert not KEY.knows(base64.urlsafe_b64encode(changed).decode())
    assert not KEY.knows(base64.urlsafe_b64encode(content[:32]).decode().rstrip("="))
    for text in ("", token[:-1], token + "A", token + "=", token[:20] + "é" + token[21:]):
        assert not KEY.knows(text)


def test_anybody_can_check_a_token_with_the_mark():
    content = base64.urlsafe_b64decode(KEY.issue())
    assert len(KEY.mark) == 8
    assert content[32:] == hashlib.sha256(b"sottovoce invitation\0" + KEY.mark + content[:32]).digest()[:4]
    marks = {KEY.mark, TokenKey(bytes(32), b"protocol").mark, TokenKey(bytes(range(32)), b"protocoL").mark}
    assert len(marks) == 3


@pytest.mark.parametrize(
    "value", ["a" * 15, "a" * 129, "a" * 15 + " ", "a" * 16 + "\n", "ä" * 16, "\ud800" * 16, None, 7, b"a" * 16]
)
def test_what_is_no_token(value):
    assert is_token("a" * 16) and is_token("Az09-_.~" * 16) and not is_token(value)


def test_only_the_hash_is_kept():
    assert token_hash("a" * 16).hex() == "0c0beacef8877bbf2416eb00f2b5dc96354e26dd1df5517320459b1236860f8c"


def test_key_files(tmp_path):
    path = tmp_path / "key"
    make_secret_file(path, "token key")
    assert path.stat().st_mode & 0o777 == 0o600
    assert TokenKey.from_file(path, b"p").knows(TokenKey.from_file(path, b"p").issue())
    with pytest.raises(ParameterError, match="cannot make the file: File exists"):
        make_secret_file(path, "token key")
    with pytest.raises(ParameterError, match="cannot read the file"):
        TokenKey.from_file(tmp_path / "missing", b"p")
    for text in ("", "secret", "ab" * 31, "ab" * 33, "schlüssel"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ParameterError, match="64 hexadecimal digits") as caught:
            TokenKey.from_file(path, b"p")
        assert "secret" not in str(caught.value)
    with pytest.raises(ParameterError, match="key must be 32 bytes; got 3"):
        TokenKey(b"abc", b"p")
