"""How a party names columns in few bytes.

Signed columns travel as whole numbers, and many of them as few bytes. A place is twice the column, plus 1 for a step
down. Places below a public base are the digits of one number in that base; it takes as many bytes as the largest such
number needs, so that the length of a message is a public fact.
"""

from collections.abc import Sequence

from sottovoce.exceptions import MessageError


def place_of(column: int, sign: int) -> int:
    """Return the place of a step up (``sign`` 1) or down (-1) along ``column``."""
    return 2 * column + (sign < 0)


def signed_column(place: int) -> tuple[int, int]:
    return place // 2, -1 if place % 2 else 1


def pack_places(places: Sequence[int], n_columns: int) -> bytes:
    base, value = 2 * n_columns, 0
    for place in reversed(places):
        value = value * base + place
    return value.to_bytes(_size(len(places), base), "little")


def unpack_places(raw: bytes, count: int, n_columns: int) -> list[int]:
    """Return ``count`` places.

    Raises `MessageError` if the bytes are not what `pack_places` writes for so many places and columns.
    """
    base, value = 2 * n_columns, int.from_bytes(raw, "little")
    if len(raw) != _size(count, base) or value >= base**count:
        raise MessageError(f"{len(raw)} bytes are not {count} places of {n_columns} columns.")
    places = []
    for _ in range(count):
        value, place = divmod(value, base)
        places.append(place)
    return places


def _size(count: int, base: int) -> int:
    largest: int = base**count - 1
    return (largest.bit_length() + 7) // 8
