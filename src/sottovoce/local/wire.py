"""The report on the wire: 22 bytes, whatever the number of features.

==========  ============================================
4 bytes     ``LDP1``, the format and its version
8 bytes     id of the protocol
u64         seed of the candidates, little endian
u16         index of the reported one, little endian
==========  ============================================

Whatever arrives is either a `Report` or one of the reasons of a closed list; nothing raises.
"""

import hashlib
import re
import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.local.protocol import Protocol

REPORT_BYTES: Final = 22

_MAGIC: Final = b"LDP1"
_LAYOUT: Final = struct.Struct("<4s8sQH")
_ROWS: Final = np.dtype([("head", "V12"), ("seed", "<u8"), ("index", "<u2")])
_SEED_DOMAIN: Final = b"sottovoce local seed 1\x00"
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.~-]{16,128}", re.ASCII)  # what a collector takes for one


class Reason(Enum):
    """Why bytes are not a report of a protocol."""

    LENGTH = "length"
    MAGIC = "magic"
    PROTOCOL = "protocol"
    INDEX = "index"
    SEED = "seed"


@dataclass(frozen=True)
class Report:
    """One person's report."""

    seed: int
    index: int


def is_token(value: object) -> bool:
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None


def seed_of(protocol_id: bytes, token: bytes) -> int:
    r"""Return the seed that belongs to a token: nobody can look for a seed that suits a wish.

    The first 8 bytes, little endian, of the SHA-256 of ``b"sottovoce local seed 1\0"``, the id and the token.
    """
    return int.from_bytes(hashlib.sha256(_SEED_DOMAIN + protocol_id + token).digest()[:8], "little")


def pack(protocol: Protocol, seed: int, index: int) -> bytes:
    return _LAYOUT.pack(_MAGIC, protocol.id, seed, index)


def pack_many(protocol: Protocol, seeds: NDArray[np.uint64], indices: NDArray[np.uint16]) -> bytes:
    rows = np.zeros(len(seeds), _ROWS)
    rows["head"], rows["seed"], rows["index"] = np.frombuffer(_MAGIC + protocol.id, "V12"), seeds, indices
    return rows.tobytes()


def parse(raw: bytes, protocol: Protocol, *, token: bytes | None = None) -> Report | Reason:
    """Read one report.

    ``token``: the token it came with; its seed must then be the one that belongs to the token.
    """
    if len(raw) != REPORT_BYTES:
        return Reason.LENGTH
    magic, protocol_id, seed, index = _LAYOUT.unpack(raw)
    if magic != _MAGIC:
        return Reason.MAGIC
    if protocol_id != protocol.id:
        return Reason.PROTOCOL
    if index >= protocol.K:
        return Reason.INDEX
    if token is not None and seed != seed_of(protocol.id, token):
        return Reason.SEED
    return Report(seed, index)


def parse_many(raw: bytes, protocol: Protocol) -> tuple[NDArray[np.uint64], NDArray[np.uint16], dict[str, int]]:
    """Read many reports, one after the other without anything between them.

    Returns seeds, indices, and how many were refused, by reason; bytes behind the last whole report count as one of
    wrong length.
    """
    whole = len(raw) // REPORT_BYTES
    rows = np.frombuffer(raw, np.uint8, whole * REPORT_BYTES).reshape(whole, REPORT_BYTES)
    magic = (rows[:, :4] == np.frombuffer(_MAGIC, np.uint8)).all(axis=1)
    known = (rows[:, 4:12] == np.frombuffer(protocol.id, np.uint8)).all(axis=1)
    fields = np.frombuffer(raw, _ROWS, whole)
    inside = fields["index"] < protocol.K
    good = magic & known & inside
    counts = {
        Reason.LENGTH: int(len(raw) % REPORT_BYTES > 0),
        Reason.MAGIC: int(np.sum(~magic)),
        Reason.PROTOCOL: int(np.sum(magic & ~known)),
        Reason.INDEX: int(np.sum(magic & known & ~inside)),
    }
    rejected = {reason.value: count for reason, count in counts.items() if count}
    chosen = fields[good]
    return chosen["seed"].astype(np.uint64), chosen["index"].astype(np.uint16), rejected
