"""Device tokens: only the key's owner makes them, and each has one text."""

import base64
import hashlib

import pytest

from sottovoce.exceptions import ParameterError
from sottovoce.local.collector.tokens import TokenKey, make_secret_file, token_hash
from sottovoce.local.wire import is_token

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
