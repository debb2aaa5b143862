"""Encode and decode messages: typed, versioned, size-limited, checked before use."""

import struct
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from spinney.errors import StorageError
from spinney.transport import codec


class Packed:
    """A value that encodes itself."""

    def __init__(self, data):
        self.data = data

    def pack(self):
        return self.data

    def packed_size(self):
        return len(self.data)

    @classmethod
    def unpacked_size(cls, data):
        return 100 * len(data)

    @classmethod
    def unpack(cls, data):
        if data.startswith(b"!"):
            raise StorageError("A packed test value is malformed.")
        return cls(data)


@dataclass(frozen=True)
class Inner:
    flag: bool
    word: Literal["a", "b"]
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class Message:
    """One field of every kind."""

    number: int
    share: float
    text: str
    maybe: int | None
    names: tuple[str, ...]
    inner: Inner
    matrix: NDArray[np.float32]
    flags: NDArray[np.bool_]
    several: tuple[NDArray[np.uint8], ...]
    packed: Packed
    any_array: NDArray[Any]


def message(**changes):
    facts: dict[str, Any] = {
        "number": -(2**40),
        "share": 0.1,
        "text": "ä\0 b",
        "maybe": None,
        "names": ("x", "y"),
        "inner": Inner(True, "b", np.array([1, -2, 3])),
        "matrix": np.array([[1.5, np.nan], [-0.0, np.inf]], np.float32),
        "flags": np.array([True, False]),
        "several": (np.zeros(0, np.uint8), np.arange(3, dtype=np.uint8)),
        "packed": Packed(b"\x00packed"),
        "any_array": np.array(7, np.uint16),
    }
    return Message(**(facts | changes))


def frame(kind, fields, sizes, blobs=b"", *, magic=b"SPNY", version=1, n_head=None):
    """Return a hand-made frame."""
    head = msgspec.msgpack.encode([kind, msgspec.Raw(msgspec.msgpack.encode(fields)), sizes])
    n_head = len(head) if n_head is None else n_head
    return struct.pack("<4sBI", magic, version, n_head) + head + blobs


@dataclass(frozen=True)
class Small:
    counts: NDArray[np.int64]


GOOD = frame("Small", {"counts": ["<i8", [2]]}, [16], bytes(16))


def test_every_kind_of_field_comes_back():
    sent = message()
    found = codec.decode(codec.encode(sent), Message)
    for name in ("number", "share", "text", "maybe", "names"):
        assert getattr(found, name) == getattr(sent, name)
    assert (found.inner.flag, found.inner.word) == (True, "b")
    pairs: list[tuple[Any, Any]] = [
        (found.inner.rows, sent.inner.rows),
        (found.matrix, sent.matrix),
        (found.flags, sent.flags),
        (found.any_array, sent.any_array),
        *zip(found.several, sent.several, strict=True),
    ]
    for there, here in pairs:
        assert there.dtype == here.dtype
        assert there.shape == here.shape
        assert there.tobytes() == here.tobytes()
    assert found.packed.data == b"\x00packed"


def test_the_size_is_known_without_encoding():
    texts = ["", *(letter * n for letter in "aé" for n in (31, 32, 255, 256, 65_535, 65_536))]
    others = (
        message(matrix=np.zeros((300, 70), np.float32)),
        message(number=-40),
        message(names=()),
    )
    for sent in (message(), *others, *(message(text=text) for text in texts)):
        assert codec.encoded_size(sent) == len(codec.encode(sent))


@dataclass(frozen=True)
class Levels:
    newest: tuple[Packed, ...]


@pytest.mark.parametrize("n", [0, 1, 20])
def test_the_size_of_packed_values_in_a_row_is_known_without_encoding(n):
    sent = Levels(tuple(Packed(bytes(100 * k)) for k in range(n)))
    assert codec.encoded_size(sent) == len(codec.encode(sent))


def test_a_measure_of_messages_that_repeat_fields_is_that_of_each():
    measure = codec.Measure()
    first = message()
    others = (replace(first, number=70_000), replace(first, matrix=np.zeros((300, 70), "f4")))
    many = replace(first, several=tuple(np.zeros(n, np.int64) for n in range(70)))
    for sent in (first, *others, many, first):
        assert measure.size(sent) == len(codec.encode(sent))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32).reshape(3, 4).T,
        np.arange(10, dtype=np.float32)[::-2],
        np.arange(3, dtype=">f4"),
        np.zeros((0, 5), np.float32),
        np.array(3.5, np.float32),
    ],
    ids=["turned", "strided", "big-endian", "empty", "no dimension"],
)
def test_an_array_comes_back_however_it_lay_in_memory(array):
    data = codec.encode(message(matrix=array))
    assert len(data) == codec.encoded_size(message(matrix=array))
    found = codec.decode(data, Message).matrix
    assert found.shape == array.shape
    assert found.tolist() == array.tolist()
    assert found.dtype == np.float32
    assert found.dtype.isnative


def test_a_decoded_array_is_the_receiver_s_own():
    found = codec.decode(GOOD, Small).counts
    found += 1
    assert found.tolist() == [1, 1]


def test_what_cannot_travel_is_refused():
    with pytest.raises(StorageError, match="A message cannot carry an array of"):
        codec.encode(message(matrix=np.array([None])))
    with pytest.raises(StorageError, match="A message cannot carry an array of"):
        codec.encode(message(matrix=np.array(["a"])))
    with pytest.raises(StorageError, match="A message cannot carry a object"):
        codec.encode(message(text=object()))
    with pytest.raises(StorageError, match="A message cannot carry a object"):
        codec.encoded_size(message(text=object()))


# --- hostile frames ------------------------------------------------------------------------------


def test_the_frame_made_by_hand_is_good():
    assert codec.decode(GOOD, Small).counts.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "This is not a Spinney message"),
        (b"SPNY", "This is not a Spinney message"),
        (frame("Small", {}, [], magic=b"GIF8"), "This is not a Spinney message"),
        (frame("Small", {}, [], version=2), "has version 2; this Spinney reads 1"),
        (frame("Small", {}, [], n_head=2**32 - 1), "cut short or too long"),
        (frame("Small", {}, [], n_head=0), "header is malformed"),
        (frame("Other", {}, []), "Expected a Small; got a message of another kind"),
        (frame(7, {}, []), "header is malformed"),
        (frame("Small", {"counts": ["<i8", [2]]}, [-1]), "cut short or too long"),
        (frame("Small", {"counts": ["<i8", [2]]}, [2**62]), "cut short or too long"),
        (frame("Small", {"counts": ["<i8", [2]]}, [2**64 - 1, 17], bytes(16)), "cut short"),
        (frame("Small", {"counts": ["<i8", [2]]}, ["a"], bytes(16)), "header is malformed"),
        (frame("Small", {"counts": ["<i8", [2]]}, []), "A Small is malformed"),
        (frame("Small", {}, []), "A Small is malformed"),
        (frame("Small", [], []), "A Small is malformed"),
        (frame("Small", {"counts": None}, [0]), "A Small is malformed"),
        (frame("Small", {"counts": ["<i8"]}, [0]), "A Small is malformed"),
        (frame("Small", {"counts": ["<i8", [3]]}, [16], bytes(16)), "A Small is malformed"),
        (frame("Small", {"counts": ["<i8", [-2]]}, [16], bytes(16)), "A Small is malformed"),
        (frame("Small", {"counts": ["<i8", [-1, -2]]}, [16], bytes(16)), "A Small is malformed"),
        (frame("Small", {"counts": ["<i8", [0, 2**63]]}, [0]), "A Small is malformed"),
        (frame("Small", {"counts": ["<i8", [2**62, 2**62]]}, [0]), "A Small is malformed"),
        (frame("Small", {"counts": ["<i8", [1] * 99]}, [8], bytes(8)), "A Small is malformed"),
        (frame("Small", {"counts": ["<i8", [1.0]]}, [8], bytes(8)), "A Small is malformed"),
        (
            frame("Small", {"counts": ["<i8", [2]]}, [16, 3], bytes(19)),
            "A Small holds more data than its fields",
        ),
        (GOOD + b"\0", "cut short or too long"),
        (GOOD[:-1], "cut short or too long"),
    ],
)
def test_a_hostile_frame_is_refused(data, words):
    with pytest.raises(StorageError, match=words):
        codec.decode(data, Small)


@pytest.mark.parametrize(
    "text",
    [
        "<i4",
        "<f8",
        "|O",
        "O",
        "<U2",
        "|V8",
        "<M8[s]",
        "i8,i8",
        "(2,)i8",
        "a",
        "{",
        "",
        ">i8",
        "int64",
        "<c16",
        "i" * 5000,
        "{'names': ['a'], 'formats': ['O']}",
    ],
)
def test_an_array_of_another_type_is_refused(text):
    with pytest.raises(StorageError, match="A Small is malformed"):
        codec.decode(frame("Small", {"counts": [text, [2]]}, [16], bytes(16)), Small)


def test_a_truth_value_is_true_or_false():
    @dataclass(frozen=True)
    class Flags:
        flags: NDArray[np.bool_]

    data = frame("Flags", {"flags": ["|b1", [2]]}, [2], b"\x01\x02")
    with pytest.raises(StorageError, match="A Flags is malformed"):
        codec.decode(data, Flags)


def test_a_packed_value_may_refuse_its_bytes():
    data = codec.encode(message(packed=Packed(b"!")))
    with pytest.raises(StorageError, match="A Message is malformed"):
        codec.decode(data, Message)


def test_values_are_checked_against_their_types():
    good = codec.encode(message())
    for old, new in ((b"\xa4word\xa1b", b"\xa4word\xa1c"), (b"\xa4flag\xc3", b"\xa4flag\x03")):
        assert good.count(old) == 1
        with pytest.raises(StorageError, match="A Message is malformed"):
            codec.decode(good.replace(old, new), Message)


def test_nesting_without_end_is_refused():
    deep = b"\x93" + msgspec.msgpack.encode("Small") + b"\x81\xa6counts" + b"\x91" * 100_000
    for head in (b"\x91" * 100_000, deep + b"\xc0\x90"):
        data = struct.pack("<4sBI", b"SPNY", 1, len(head)) + head
        with pytest.raises(StorageError, match="malformed"):
            codec.decode(data, Small)


def test_a_message_longer_than_the_limit_is_refused_unread():
    with pytest.raises(StorageError, match="may have at most 10 bytes; got"):
        codec.decode(GOOD, Small, limit=10)
    assert codec.decode(GOOD, Small, limit=len(GOOD))


def test_an_error_s_details_stay_out_of_its_public_part():
    data = codec.encode(message(text="canary")).replace(b"canary", b"canar\xff")
    with pytest.raises(StorageError) as caught:
        codec.decode(data, Message)
    assert "canar" not in caught.value.public


@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused(data):
    with pytest.raises(StorageError):
        codec.decode(data, Message)
    with pytest.raises(StorageError):
        codec.decode(b"SPNY\x01" + data, Message)


@given(
    changes=st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 255)), max_size=5),
    cut=st.integers(0, 40),
)
def test_a_damaged_frame_is_a_message_or_refused(changes, cut):
    data = bytearray(codec.encode(message()))
    for place, value in changes:
        data[place % len(data)] = value
    del data[len(data) - cut :]
    try:
        found = codec.decode(bytes(data), Message)
    except StorageError:
        return
    assert isinstance(found.number, int)
    assert found.flags.dtype == np.bool_


@dataclass(frozen=True)
class TwoPacked:
    first: Packed
    second: Packed


def test_packed_values_that_say_they_are_large_are_not_unpacked():
    """A short message may unpack to a long one; its limit is known beforehand."""
    data = codec.encode(TwoPacked(Packed(b"abc"), Packed(b"defg")))
    assert codec.decode(data, TwoPacked, unpacked=700).second.data == b"defg"
    with pytest.raises(StorageError, match="TwoPacked would unpack to more numbers than it may"):
        codec.decode(data, TwoPacked, unpacked=699)
    sent = codec.decode(data, TwoPacked)
    assert codec.encode(sent, unpacked=700) == data
    with pytest.raises(StorageError, match="TwoPacked would unpack to more numbers than it may"):
        codec.encode(sent, unpacked=699)
