"""How a party and its engine's process talk: a header in JSON, then whole numbers as they lie in memory."""

import json
import math
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from sottovoce.vertical.engines.engine import Whole

__all__ = ["EndedError", "receive", "send"]

_LENGTH: Final = struct.Struct("<I")
_HEADER: Final = 1 << 24
_PIECE: Final = 1 << 26


class EndedError(OSError):
    """The other end is gone, or has sent something else."""


def send(
    end: socket.socket, header: Mapping[str, Any], arrays: Sequence[Whole] = (), until: float | None = None
) -> None:
    """Send a frame; ``until`` is a time of `time.monotonic`, after which TimeoutError is raised."""
    text = json.dumps({**header, "shapes": [array.shape for array in arrays]}).encode()
    _limit(end, until)
    end.sendall(_LENGTH.pack(len(text)) + text)
    for array in arrays:
        _limit(end, until)
        end.sendall(_bytes(np.ascontiguousarray(array, np.int64)))  # no copy where the numbers already lie in order


def receive(end: socket.socket, until: float | None = None) -> tuple[dict[str, Any], list[Whole]]:
    prefix = bytearray(_LENGTH.size)
    _receive(end, memoryview(prefix), until)
    (length,) = _LENGTH.unpack(prefix)
    if length > _HEADER:
        raise EndedError("no frame")
    text = bytearray(length)
    _receive(end, memoryview(text), until)
    header = json.loads(bytes(text))
    arrays = []
    for shape in header["shapes"]:
        array = np.empty(shape, np.int64)
        if math.prod(shape):
            _receive(end, _bytes(array), until)
        arrays.append(array)
    return header, arrays


def _bytes(array: Whole) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _receive(end: socket.socket, into: memoryview, until: float | None) -> None:
    done = 0
    while done < len(into):
        _limit(end, until)
        count = end.recv_into(into[done : done + _PIECE])
        if not count:
            raise EndedError("the other end is gone")
        done += count


def _limit(end: socket.socket, until: float | None) -> None:
    if until is None:
        return
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    end.settimeout(left)
