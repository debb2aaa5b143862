"""Mask streams: AES-256 in counter mode, added directly to unsigned counters."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from spinney.errors import InternalError, SettingError
from spinney.privacy.keys import Counters, Words

_CHUNK = 1 << 18  # bytes; part of a stream is added while it is still in the core's cache
_ZEROS = memoryview(bytes(_CHUNK))  # encrypting zeros in counter mode gives the stream itself
_BLOCK = 16  # bytes of a cipher block
_FROM_ZERO = CTR(bytes(_BLOCK))
_PIECE = 1 << 20  # bytes per task of a thread
_SPARE = 15  # `update_into` requires room for a block that counter mode never writes


def ring_words(
    vectors: Sequence[Counters], bits: Sequence[int], *, copy: bool = True
) -> tuple[Words, ...]:
    """Return the vectors modulo two to the power of their `bits`; copy only if necessary."""
    kinds = [vector.dtype.kind for vector in vectors]
    if len(vectors) != len(bits) or not set(bits) <= {32, 64} or not set(kinds) <= {"i", "u"}:
        raise SettingError(
            "A secure sum takes integer vectors, each with ring bits of 32 or 64; "
            f"got {', '.join(str(vector.dtype) for vector in vectors)} with bits {tuple(bits)}."
        )
    return tuple(
        vector.view(f"u{width // 8}")
        if not copy and _is_ring(vector, width)
        else vector.astype(f"u{width // 8}", order="C")
        for vector, width in zip(vectors, bits, strict=True)
    )


def _is_ring(vector: Counters, width: int) -> bool:
    """Return whether a vector's memory already holds its words."""
    return bool(
        8 * vector.itemsize == width and vector.flags.c_contiguous and vector.flags.writeable
    )


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="spinney-masks")


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def stream_words(key: bytes, n_words: int) -> NDArray[np.uint64]:
    """Return the first words of the stream of a key; whoever uses them does not write into them."""
    n_bytes = 8 * n_words
    zeros = _ZEROS[:n_bytes] if n_bytes <= _CHUNK else bytes(n_bytes)
    stream = Cipher(AES256(key), _FROM_ZERO).encryptor().update(zeros)
    return np.frombuffer(stream, "<u8").astype(np.uint64, copy=False)


def add_stream(vectors: Iterable[Words], key: bytes, *, subtract: bool = False) -> None:
    """Add the stream of a key to counters in place, modulo their width, or subtract it.

    The stream continues from one vector to the next. Vectors must be contiguous; besides them this
    needs one chunk of memory.
    """
    add_streams(vectors, [(key, subtract)])


def add_streams(vectors: Iterable[Words], masks: Sequence[tuple[bytes, bool]]) -> None:
    """Add or subtract the streams of several keys; large vectors use all cores."""
    pieces: list[tuple[Words, int]] = []
    at = 0
    for vector in vectors:
        if not vector.flags.c_contiguous:
            raise InternalError("A stream can be added only to a contiguous vector.")
        flat = vector.reshape(-1)
        # A piece begins at a whole block of the cipher, wherever the vector begins: all vectors
        # share one stream, so many small vectors and one large one are masked alike.
        step = _PIECE // flat.itemsize
        pieces += [(flat[i : i + step], at + i * flat.itemsize) for i in range(0, flat.size, step)]
        at += flat.nbytes
    if at <= _CHUNK:
        _add_few([part for part, _ in pieces], at, masks)
        return
    if at <= _PIECE:  # threads would take longer than they save
        for part, start in pieces:
            _add_at(part, start, masks)
        return
    list(_pool().map(lambda piece: _add_at(piece[0], piece[1], masks), pieces))


def _add_few(parts: Sequence[Words], n_bytes: int, masks: Sequence[tuple[bytes, bool]]) -> None:
    """Add the streams to vectors of one chunk together; each stream is begun once."""
    buffer = bytearray(n_bytes + _SPARE)
    at, streams = 0, []  # what of the stream belongs to which part
    for part in parts:
        little_endian = part.dtype.newbyteorder("<")
        streams.append((part, np.frombuffer(buffer, little_endian, part.size, at)))
        at += part.nbytes
    for key, subtract in masks:
        Cipher(AES256(key), _FROM_ZERO).encryptor().update_into(_ZEROS[:n_bytes], buffer)
        combine = np.subtract if subtract else np.add
        for part, words in streams:
            combine(part, words, out=part)


def _add_at(part: Words, start: int, masks: Sequence[tuple[bytes, bool]]) -> None:
    """Add the streams from byte `start` on, chunk by chunk, while each is in the core's cache."""
    little_endian = part.dtype.newbyteorder("<")  # the same bytes give the same number everywhere
    block, skipped = divmod(start, _BLOCK)
    streams = []
    for key, subtract in masks:
        stream = Cipher(AES256(key), CTR(block.to_bytes(_BLOCK, "big"))).encryptor()
        stream.update(bytes(skipped))
        streams.append((stream, np.subtract if subtract else np.add))
    buffer = bytearray(_CHUNK + _SPARE)
    step = _CHUNK // part.itemsize
    for first in range(0, part.size, step):
        chunk = part[first : first + step]
        for stream, combine in streams:
            stream.update_into(_ZEROS[: chunk.nbytes], buffer)
            combine(chunk, np.frombuffer(buffer, little_endian, chunk.size), out=chunk)
