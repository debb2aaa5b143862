"""Bytes that travel compressed: a model has many, and most of them repeat."""

import struct
import zlib
from typing import Any, Final, Self

from spinney.errors import StorageError

_LENGTH: Final = struct.Struct("<Q")
_LEVEL: Final = 6


class Deflated:
    """Bytes that are compressed when they travel.

    This is not a dataclass: a codec would encode its fields instead of calling `pack`.
    """

    __slots__ = ("_packed", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._packed: bytes | None = None

    def pack(self) -> bytes:
        """Return the length of the bytes, and what they are compressed to."""
        if self._packed is None:
            self._packed = _LENGTH.pack(len(self.data)) + zlib.compress(self.data, _LEVEL)
        return self._packed

    def packed_size(self) -> int:
        """Return how many bytes travel."""
        return len(self.pack())

    @classmethod
    def unpacked_size(cls, data: bytes) -> int:
        """Return the declared length."""
        if len(data) < _LENGTH.size:
            raise _malformed()
        (length,) = _LENGTH.unpack_from(data)
        return int(length)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Return the bytes; raise unless they are as many as declared."""
        length = cls.unpacked_size(data)
        inflating = zlib.decompressobj()
        try:
            found = inflating.decompress(data[_LENGTH.size :], length + 1)
        except (zlib.error, OverflowError):
            raise _malformed() from None
        if len(found) != length or not inflating.eof or inflating.unused_data:
            raise _malformed()
        return cls(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deflated) and self.data == other.data

    __hash__: Any = None


def _malformed() -> StorageError:
    return StorageError("Compressed bytes in a message are malformed.")
