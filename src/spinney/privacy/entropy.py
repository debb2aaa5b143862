"""The only source of secret randomness: noise, masks, keys.

Bytes come from the operating system. Bulk words come from AES-256 in counter mode. The operating
system draws a key for each call, and the key is dropped after it. So nothing kept in memory can
replay earlier noise, and a forked process cannot repeat its parent's noise. There is no seed.

Tests may replace the source by a repeatable one (`seeded_for_tests`). `is_seeded` is then true, and
whatever is released must be reported as not private.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from threading import Lock

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from spinney.errors import InternalError
from spinney.typing import Keys

_KEY_BYTES = 32
_ZEROS = bytes(1 << 20)  # encrypting zeros in counter mode gives the key stream itself
_DIRECT = 1 << 10  # up to this size, the operating system is faster than a new key


class _Seeded:
    """A repeatable stream for tests, shared by all threads."""

    def __init__(self, seed: int) -> None:
        self._stream = _stream(sha256(f"spinney test seed {seed}".encode()).digest())
        self._lock = Lock()

    def fill(self, buffer: memoryview) -> None:
        with self._lock:
            _expand(self._stream, buffer)


_test_sources: list[_Seeded] = []  # the innermost `seeded_for_tests` is last; empty in production


def secret_bytes(count: int) -> bytes:
    """Return `count` secret bytes, for keys and mask seeds."""
    if _test_sources:
        buffer = bytearray(count)
        _test_sources[-1].fill(memoryview(buffer))
        return bytes(buffer)
    return os.urandom(count)


def words(count: int) -> Keys:
    """Return `count` independent uniform 64-bit words."""
    if count < 0:
        raise InternalError(f"The number of words must be at least 0; got {count}.")
    if count * 8 <= _DIRECT:
        return np.frombuffer(bytearray(secret_bytes(count * 8)), dtype=np.uint64)
    drawn = np.empty(count, dtype=np.uint64)
    buffer = drawn.data.cast("B")
    if _test_sources:
        _test_sources[-1].fill(buffer)
    else:
        _expand(_stream(os.urandom(_KEY_BYTES)), buffer)
    return drawn


def is_seeded() -> bool:
    """Return whether a test has replaced the source: nothing drawn now is private."""
    return bool(_test_sources)


@contextmanager
def seeded_for_tests(seed: int) -> Iterator[None]:
    """Replace the source by a repeatable one, for tests only."""
    source = _Seeded(seed)
    _test_sources.append(source)
    try:
        yield
    finally:
        _test_sources.remove(source)


def _stream(key: bytes) -> CipherContext:
    return Cipher(AES256(key), CTR(bytes(16))).encryptor()


def _expand(stream: CipherContext, buffer: memoryview) -> None:
    """Fill the buffer with the next bytes of the key stream."""
    for start in range(0, len(buffer), len(_ZEROS)):
        part = buffer[start : start + len(_ZEROS)]
        stream.update_into(_ZEROS[: len(part)], part)
