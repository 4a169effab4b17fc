"""Seeded changes of files and messages: of bytes, of lines, and of values inside JSON."""

import json
import random
import struct
from collections.abc import Callable
from typing import Any

SCALARS: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 10**400, -0.0, 0.5, 1e-320, 1e308, -1e308, "", "a", "é",
    "\ud800", "\0", "nan", "inf", "1e999", "-1", "a" * 5000, "__class__", "os.system", [], {}, [[]], [None], {"": None},
    {"float": "nan"}, {"float": "inf"}, "2020-01-01",
]  # fmt: skip
WORDS = [
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\n", b"\r\n", b'"', b"'", b",", b";", b":", b"=", b"[", b"]", b"[[", b"{", b"}",
    b"#", b"nan", b"inf", b"-inf", b"NaN", b"Infinity", b"1e999", b"-0.0", b"0x10", b"9" * 400, b"\xc3\x28", b"\\u0000",
    b"\\ud800", b"\xe2\x80\xa8", b"1970-01-01", b"true", b"null", b"..", b"'''", b"a.b.c", b"-1", b"0", b"1_000",
]  # fmt: skip
SIZES = [0, 1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1]

Mutate = Callable[[random.Random, bytes], bytes]


def change_bytes(rng: random.Random, raw: bytes) -> bytes:
    """Change, lose, repeat or add a few bytes; overwrite a place with a length that is far too large."""
    out = bytearray(raw)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        place = rng.randrange(len(out) + 1)
        kind = rng.randrange(8)
        if kind == 0 and place < len(out):
            out[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[place : place + rng.choice([1, 2, 8, 64])] = b""
        elif kind == 2:
            out[place:place] = out[place : place + rng.choice([1, 8, 64])]
        elif kind == 3:
            out[place:place] = rng.choice(WORDS)
        elif kind == 4:
            code = rng.choice(["<Q", "<I", "<H", ">Q", ">I", "B"])
            number = struct.pack(code, rng.choice(SIZES) % 2 ** (8 * struct.calcsize(code)))
            out[place : place + len(number)] = number
        elif kind == 5:
            out[place : place + 8] = struct.pack("<d", rng.choice([float("nan"), float("inf"), -1e308, 5e-324]))
        elif kind == 6:
            out = out[:place]
        else:
            out[place : place + 1] = rng.randbytes(1)
    return bytes(out)


def change_text(rng: random.Random, raw: bytes) -> bytes:
    """Lose, repeat, swap or change lines and words; nest brackets deeply; now and then change bytes."""
    kind = rng.randrange(9)
    if kind < 2 or not raw:
        return change_bytes(rng, raw)
    lines = raw.splitlines(keepends=True)
    place, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    if kind == 2:
        lines[place:place] = [lines[other]] * rng.choice([1, 2, 50])
    elif kind == 3:
        del lines[place]
    elif kind == 4:
        lines[place], lines[other] = lines[other], lines[place]
    elif kind == 5:
        lines[place] = lines[place].rstrip(b"\r\n") + lines[other]
    elif kind == 6:
        opening = rng.choice([b"[", b"{", b'{"a":', b"(", b"a.", b"[["])
        lines[place] = opening * rng.choice([3, 500, 20_000]) + lines[place]
    else:
        words = lines[place].replace(b",", b" , ").split(b" ")
        words[rng.randrange(len(words))] = rng.choice(WORDS)
        lines[place] = b" ".join(words)
    return b"".join(lines)


def change_value(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """Return a value of JSON with one place changed."""
    if isinstance(value, (dict, list)) and value and rng.random() < (0.95 if depth == 0 else 0.8):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = rng.choice(keys)
        out = value.copy()
        kind = rng.randrange(12)
        if kind == 0:
            out.pop(key)
        elif kind == 1:
            if isinstance(out, dict):
                out[rng.choice(["", "extra", "__class__", *keys])] = out[key]
            else:
                out.extend([out[key]] * rng.choice([1, 3, 1000]))
        else:
            out[key] = change_value(rng, value[key], depth + 1)
        return out
    if isinstance(value, str) and rng.random() < 0.4:
        return change_bytes(rng, value.encode("utf-8", "replace")).decode("utf-8", "replace")
    if isinstance(value, (int, float)) and abs(value) < 1e100 and rng.random() < 0.5:
        return rng.choice([-value, value * 2, value / 2, value + 1, value * 1e300, int(value), str(value), [value]])
    return rng.choice(SCALARS)


def change_json(rng: random.Random, raw: bytes) -> bytes:
    """Change values of a document; now and then its text."""
    if rng.random() < 0.15:
        return change_text(rng, raw)
    value = json.loads(raw)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        value = change_value(rng, value)
    separators = (",", ":") if rng.random() < 0.8 else None
    try:
        text = json.dumps(value, separators=separators, sort_keys=rng.random() < 0.8)
    except (ValueError, TypeError):  # a number of too many digits, keys that do not compare
        return raw
    if rng.random() < 0.1:
        text = text.replace("null", rng.choice(["NaN", "Infinity", "1e999", "[" * 5000]), 1)
    return text.encode("utf-8", "surrogatepass")


def change_json_lines(rng: random.Random, raw: bytes) -> bytes:
    """Change a line of JSON documents, or the order of lines."""
    if rng.random() < 0.3:
        return change_text(rng, raw)
    lines = raw.splitlines()
    place = rng.randrange(len(lines))
    lines[place] = change_json(rng, lines[place])
    return b"\n".join(lines) + b"\n"
