"""Bytes that travel compressed come back as they were; anything else is refused."""

import struct
import zlib

import pytest

from spinney.errors import StorageError
from spinney.transport.deflated import Deflated


@pytest.mark.parametrize("data", [b"", b"a model", bytes(range(256)) * 4000])
def test_bytes_come_back(data):
    packed = Deflated(data).pack()
    assert Deflated.unpack(packed) == Deflated(data)
    assert Deflated.unpacked_size(packed) == len(data)
    assert Deflated(data).packed_size() == len(packed)


def test_what_repeats_takes_few_bytes():
    assert Deflated(b"leaf " * 100_000).packed_size() < 2000


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\0" * 7,
        struct.pack("<Q", 3) + zlib.compress(b"four"),
        struct.pack("<Q", 5) + zlib.compress(b"four"),
        struct.pack("<Q", 4) + zlib.compress(b"four")[:-1],
        struct.pack("<Q", 4) + zlib.compress(b"four") + b"more",
        struct.pack("<Q", 4) + b"no stream",
        struct.pack("<Q", 2**64 - 1) + zlib.compress(b"four"),
        struct.pack("<Q", 10) + zlib.compress(bytes(1 << 24)),
    ],
)
def test_anything_else_is_refused(packed):
    with pytest.raises(StorageError, match="Compressed bytes in a message are malformed"):
        Deflated.unpack(packed)
