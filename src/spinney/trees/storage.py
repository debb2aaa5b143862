"""Files of arrays with a descriptive header: the container of a saved model.

```text
8 bytes    "SPINNEY" and a zero byte
4 bytes    version of this layout, little-endian
8 bytes    length of the header
header     JSON: {"kind", "meta", "arrays": [[name, type, shape], ...]}
arrays     one after another, little-endian, C order
32 bytes   SHA-256 of everything before
```

The same content always gives the same bytes: a file contains no time, path or machine name. Files
are written atomically, so no half-written file remains.
"""

import hashlib
import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from spinney.errors import StorageError
from spinney.files import write_whole

VERSION = 1
_MAGIC = b"SPINNEY\0"
_FRAME = struct.Struct("<8sIQ")
_DIGEST_BYTES = 32
_TYPES = frozenset({"|b1", "|u1", "<u2", "<u4", "<u8", "<i2", "<i4", "<i8", "<f4", "<f8"})

Arrays = Mapping[str, NDArray[Any]]


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    meta: dict[str, Any]
    arrays: list[tuple[str, str, list[int]]]


def write_file(path: str | os.PathLike[str], kind: str, meta: Any, arrays: Arrays) -> None:
    """Write a file of this kind atomically."""
    write_whole(path, to_bytes(kind, meta, arrays))


def to_bytes(kind: str, meta: Any, arrays: Arrays) -> bytes:
    """Return the bytes of a file."""
    ordered = {name: _plain(array) for name, array in arrays.items()}
    described = [[name, a.dtype.str, list(a.shape)] for name, a in ordered.items()]
    head = json.dumps(
        {"kind": kind, "meta": msgspec.to_builtins(meta), "arrays": described},
        separators=(",", ":"),
        sort_keys=True,
        ensure_ascii=False,
    ).encode()
    parts = [_FRAME.pack(_MAGIC, VERSION, len(head)), head]
    parts += [array.tobytes() for array in ordered.values()]
    body = b"".join(parts)
    return body + hashlib.sha256(body).digest()


def read_file(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description and arrays of a file of this kind."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise StorageError(
            f"Cannot read {str(path)!r}: {error.strerror or error}. Check the path."
        ) from None
    return from_bytes(data, kind, name=str(path))


def from_bytes(
    data: bytes, kind: str, *, name: str = "the data"
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description and arrays that `to_bytes` wrote."""
    if len(data) < len(_MAGIC) or data[: len(_MAGIC)] != _MAGIC:
        raise StorageError(
            f"{name!r} is not a Spinney file. Give the path of a model that Spinney saved."
        )
    if len(data) < _FRAME.size + _DIGEST_BYTES:
        raise StorageError(f"{name!r} is cut short. Copy it again, or save the model again.")
    _, version, n_head = _FRAME.unpack_from(data)
    if version != VERSION:
        raise StorageError(
            f"{name!r} has format version {version}; this Spinney reads version {VERSION}. "
            "Install the Spinney that wrote it, or a newer one."
        )
    if hashlib.sha256(data[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
        raise StorageError(
            f"{name!r} is damaged or cut short: its checksum does not match. "
            "Copy it again, or save the model again."
        )
    try:
        head = msgspec.json.decode(data[_FRAME.size : _FRAME.size + n_head], type=_Head)
        arrays = _arrays(head, data, _FRAME.size + n_head)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # also nested too deep
        raise StorageError(
            f"{name!r} has a malformed header. Copy it again, or save the model again.",
            local=str(error),
        ) from None
    if head.kind != kind:
        raise StorageError(f"{name!r} holds a {head.kind}; expected a {kind}.")
    return head.meta, arrays


def _arrays(head: _Head, data: bytes, at: int) -> dict[str, NDArray[Any]]:
    arrays = {}
    end = len(data) - _DIGEST_BYTES
    for name, text, shape in head.arrays:
        if text not in _TYPES or any(n < 0 for n in shape):
            raise ValueError("unknown array type")
        dtype = np.dtype(text)
        size = math.prod(shape) * dtype.itemsize
        if at + size > end:
            raise ValueError("arrays longer than the file")
        flat = np.frombuffer(data, dtype, math.prod(shape), at)
        if dtype.kind == "b" and flat.view(np.uint8).max(initial=0) > 1:
            raise ValueError("neither true nor false")
        arrays[name] = flat.reshape(shape).astype(dtype.newbyteorder("="))
        at += size
    if at != end:
        raise ValueError("arrays shorter than the file")
    return arrays


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if plain.dtype.str not in _TYPES:
        raise StorageError(f"A file cannot hold an array of {array.dtype}.")
    return plain
