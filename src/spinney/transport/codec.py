"""Encode and decode messages: typed, versioned, size-limited; nothing is unpickled or evaluated.

A message is a frozen dataclass of numbers, texts, tuples, arrays, nested dataclasses and
`Packable` values. Its frame:

```text
4 bytes   "SPNY"
1 byte    version of this layout
4 bytes   length of the header, little-endian
header    msgpack of [name of the message, its fields, lengths of the blobs]
blobs     arrays and packed values, one after another, in the order of the fields
```
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as fields_of
from functools import cache, lru_cache
from typing import Any, TypeVar, get_args, get_origin

import msgspec
import numpy as np

from spinney.errors import ProtocolError, StorageError
from spinney.typing import Packable

T = TypeVar("T")

_MAGIC = b"SPNY"
_VERSION = 1
_FRAME = struct.Struct("<4sBI")
_MEASURED = "measured by codec"  # where a part of a message keeps its size
_ARRAY_TYPES = frozenset(
    {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
)
MESSAGE_LIMIT = 1 << 31
"""The largest message, in bytes; a longer one is refused before anything is allocated."""


UNPACKED_LIMIT = 1 << 30
"""The most memory that a message's packed values may take, unless the caller allows more."""


def encode(message: object, *, unpacked: int | None = None) -> bytes:
    """Return the frame of a message; if given, `unpacked` limits the bytes of its packed values."""
    blobs: list[bytes] = []
    room = None if unpacked is None else _Room(type(message).__name__, unpacked)

    def hook(value: object) -> object:
        if isinstance(value, np.ndarray):
            array = _little_endian(value)
            blobs.append(array.tobytes())
            return [array.dtype.str, list(array.shape)]
        kind: Any = type(value)
        if _is_packable(kind):
            packed: Any = value
            blobs.append(packed.pack())
            if room is not None:
                room.take(type(packed), blobs[-1])
            return None
        raise StorageError(f"A message cannot carry a {type(value).__name__}.")

    head = _head(message, hook, lambda: [len(blob) for blob in blobs])
    return b"".join([_FRAME.pack(_MAGIC, _VERSION, len(head)), head, *blobs])


def encoded_size(message: object) -> int:
    """Return `len(encode(message))` without encoding arrays or packed values.

    Questions of a job repeat their parts, such as the bins of thousands of columns. Each part is
    measured once.
    """
    return _frame_size(message, _size_of)


class Measure:
    """Measures messages of which each repeats fields of the one before, as a job's questions do.

    A field that is the same object is not measured again: all trees so far take longer with each.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, _Size]] = {}  # of each field, by its name

    def size(self, message: object) -> int:
        """Return `encoded_size(message)`."""
        return _frame_size(message, self._size_of)

    def _size_of(self, name: str, value: object) -> "_Size":
        known = self._known.get(name)
        if known is None or known[0] is not value:
            known = self._known[name] = (value, _size_of(name, value))
        return known[1]


_Size = tuple[int, int, int, int]
"""What a part of a message takes: bytes as msgpack; blobs, bytes of their lengths, their bytes."""


def _frame_size(message: object, size_of: Callable[[str, object], _Size]) -> int:
    """Return the size of a message's frame."""
    head, n_blobs, lengths, blobs = _fields_size(message, size_of)
    frame = _FRAME.size + 1 + _text_size(type(message).__name__) + _items_header(n_blobs)
    return frame + head + lengths + blobs


def _fields_size(part: Any, size_of: Callable[[str, object], _Size]) -> _Size:
    """Return the size of a dataclass, which is the sum over its fields."""
    n_fields = head = n_blobs = lengths = blobs = 0
    kind: Any = type(part)
    for name, name_size in _names(kind):
        value = getattr(part, name)
        if value is not msgspec.UNSET:
            own = size_of(name, value)
            n_fields += 1
            head += name_size + own[0]
            n_blobs += own[1]
            lengths += own[2]
            blobs += own[3]
    return _items_header(n_fields) + head, n_blobs, lengths, blobs


def _size_of(name: str, value: Any) -> _Size:
    del name
    kind: Any = type(value)
    if kind is np.ndarray:  # most of what travels
        n_bytes = value.nbytes
        return _size_of_shape(value.dtype, value.shape), 1, _number_size(n_bytes), n_bytes
    if kind is int and value >= 0:
        return _number_size(value), 0, 0, 0
    packed = (value,) if _is_packable(kind) else value if kind is tuple else ()
    if packed and all(map(_is_packable, map(type, packed))):  # such as the levels so far
        sizes = [one.packed_size() for one in packed]
        head = len(sizes) + (_items_header(len(sizes)) if kind is tuple else 0)
        return head, len(sizes), sum(map(_number_size, sizes)), sum(sizes)
    if kind is tuple and value and all(map(_is_part, map(type, value))):
        head, n_blobs, lengths, blobs = map(sum, zip(*map(_size_of_part, value), strict=True))
        return _items_header(len(value)) + head, n_blobs, lengths, blobs
    return _size_of_part(value) if _is_part(kind) else _size_as_msgpack(value)


def _size_of_part(part: Any) -> _Size:
    """Return the size of a dataclass; of one that can keep it, it is measured once."""
    kept = getattr(part, "__dict__", None)
    if kept is None:
        return _fields_size(part, _size_of)
    if _MEASURED not in kept:
        kept[_MEASURED] = _fields_size(part, _size_of)
    found: _Size = kept[_MEASURED]
    return found


def _size_as_msgpack(value: Any) -> _Size:
    if value is True or value is False:
        return 1, 0, 0, 0
    sizes: list[int] = []

    def hook(value: object) -> object:
        if isinstance(value, np.ndarray):
            sizes.append(value.nbytes)
            return [_little(value.dtype), list(value.shape)]
        kind: Any = type(value)
        if _is_packable(kind):
            packed: Any = value
            sizes.append(packed.packed_size())
            return None
        raise StorageError(f"A message cannot carry a {type(value).__name__}.")

    head = len(msgspec.msgpack.encode(value, enc_hook=hook))
    return head, len(sizes), sum(map(_number_size, sizes)), sum(sizes)


def _number_size(number: int) -> int:
    """Return how many bytes a number that is not negative takes as msgpack."""
    if number < 1 << 7:
        return 1
    return 2 if number < 1 << 8 else 3 if number < 1 << 16 else 5 if number < 1 << 32 else 9


@cache
def _is_part(kind: type[Any]) -> bool:
    """Return whether values of a type are written field by field."""
    return is_dataclass(kind) and not issubclass(kind, Packable)


@cache
def _names(kind: type[Any]) -> tuple[tuple[str, int], ...]:
    """Return the names of a dataclass's fields, and how many bytes each takes."""
    return tuple((field.name, _text_size(field.name)) for field in fields_of(kind))


@lru_cache(maxsize=1024)
def _size_of_shape(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Return how many bytes the type and the shape of an array take as msgpack."""
    return 2 + _text_size(_little(dtype)) + sum(map(_number_size, shape))


@cache
def _text_size(text: str) -> int:
    """Return how many bytes a text takes as msgpack."""
    return len(msgspec.msgpack.encode(text))


def _items_header(n: int) -> int:
    """Return how many bytes msgpack says a number of items in."""
    return 1 if n < 16 else 3 if n < 1 << 16 else 5


def decode(
    data: bytes, kind: type[T], *, limit: int = MESSAGE_LIMIT, unpacked: int = UNPACKED_LIMIT
) -> T:
    """Return the message of a frame, checked field by field against its type.

    Packed values may take `unpacked` bytes together; a message that declares more is not unpacked.
    """
    if len(data) > limit:
        raise StorageError(f"A message may have at most {limit} bytes; got {len(data)}.")
    name, fields, blobs = _parts(data)
    if name != kind.__name__:
        raise StorageError(f"Expected a {kind.__name__}; got a message of another kind.")
    remaining = iter(blobs)
    room = _Room(kind.__name__, unpacked)

    def hook(wanted: type, value: object) -> object:
        blob = next(remaining, None)
        if blob is None:
            raise ValueError("too few blobs")
        if get_origin(wanted) is np.ndarray or wanted is np.ndarray:
            return _array(wanted, value, blob)
        if not issubclass(wanted, Packable):
            raise TypeError("unexpected type")
        return room.unpack(wanted, bytes(blob))

    try:
        message = msgspec.msgpack.decode(fields, type=kind, dec_hook=hook)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, ProtocolError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"A {kind.__name__} is malformed.", local=str(error)) from None
    if next(remaining, None) is not None:
        raise StorageError(f"A {kind.__name__} holds more data than its fields.")
    return message


@dataclass
class _Room:
    """How many bytes the packed values of a message may still take."""

    message: str
    left: int

    def take(self, wanted: type[Packable], packed: bytes) -> None:
        """Raise if a value's header declares too much memory."""
        self.left -= wanted.unpacked_size(packed)
        if self.left < 0:
            raise StorageError(
                f"A {self.message} would unpack to more numbers than it may hold. It was not "
                "unpacked."
            )

    def unpack(self, wanted: type[Packable], packed: bytes) -> Packable:
        """Return the value; raise if it takes too much memory."""
        self.take(wanted, packed)
        return wanted.unpack(packed)


@cache
def _little(dtype: np.dtype[Any]) -> str:
    """Return how a little-endian type is written; NumPy takes long to make it."""
    return dtype.newbyteorder("<").str


@cache
def _is_packable(kind: type[Any]) -> bool:
    """Return whether values of a type are packed; Python compares a protocol's methods slowly."""
    return issubclass(kind, Packable)


def _head(message: object, hook: Any, sizes: Any) -> bytes:
    assert is_dataclass(message)
    fields = msgspec.msgpack.encode(message, enc_hook=hook)
    return msgspec.msgpack.encode([type(message).__name__, msgspec.Raw(fields), sizes()])


def _parts(data: bytes) -> tuple[str, msgspec.Raw, list[memoryview]]:
    """Split a frame into its parts; check every length before using it."""
    if len(data) < _FRAME.size or data[:4] != _MAGIC:
        raise StorageError("This is not a Spinney message.")
    _, version, n_head = _FRAME.unpack_from(data)
    if version != _VERSION:
        raise StorageError(f"A message has version {version}; this Spinney reads {_VERSION}.")
    body = _FRAME.size + n_head
    try:
        name, fields, sizes = msgspec.msgpack.decode(
            data[_FRAME.size : body], type=tuple[str, msgspec.Raw, list[int]]
        )
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:  # also invalid UTF-8
        raise StorageError("A message's header is malformed.", local=str(error)) from None
    if any(size < 0 for size in sizes) or body + sum(sizes) != len(data):
        raise StorageError("A message is cut short or too long.")
    view = memoryview(data)
    blobs = []
    for size in sizes:
        blobs.append(view[body : body + size])
        body += size
    return name, fields, blobs


def _little_endian(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
    if plain.dtype.str not in _ARRAY_TYPES:
        raise StorageError(f"A message cannot carry an array of {array.dtype}.")
    return plain


def _array(wanted: Any, value: object, blob: memoryview) -> np.ndarray[Any, Any]:
    """Return the array of a blob; raise unless type and shape are those of the field."""
    text, shape = msgspec.convert(value, type=tuple[str, list[int]])
    arguments = get_args(wanted)
    allowed = get_args(arguments[1])[0] if len(arguments) == 2 else Any
    if text not in _ARRAY_TYPES:
        raise ValueError("unexpected array type")
    dtype = np.dtype(text)
    if allowed is not Any and not _fits(dtype, allowed):
        raise ValueError("unexpected array type")
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(blob):
        raise ValueError("array shape does not fit its bytes")
    flat = np.frombuffer(blob, dtype)
    if dtype.kind == "b" and flat.view(np.uint8).max(initial=0) > 1:
        raise ValueError("neither true nor false")
    return flat.reshape(shape).astype(dtype.newbyteorder("="))


def _fits(dtype: np.dtype[Any], allowed: Any) -> bool:
    return isinstance(allowed, type) and issubclass(dtype.type, allowed)
