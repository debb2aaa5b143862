"""The container of a saved model: written whole, read only if it is sound."""

import contextlib
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import StorageError
from spinney.trees import storage

KIND = "test thing"
META = {"name": "älter", "n": 3, "nested": {"b": [1, 2.5, None, True]}}
ARRAYS = {
    "flags": np.array([True, False, True]),
    "bytes": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "words": np.array([2**64 - 1, 0], np.uint64),
    "small": np.zeros((0, 4), np.float32),
    "big": np.array([[1.5, np.nan], [-0.0, np.inf]]),
}


def data_of(kind=KIND, meta=None, arrays=None):
    return storage.to_bytes(kind, META if meta is None else meta, arrays or ARRAYS)


def resigned(data):
    """Return damaged data with a checksum that fits: what only a forger would write."""
    body = bytes(data[:-32])
    return body + hashlib.sha256(body).digest()


def test_what_is_written_is_read():
    meta, arrays = storage.from_bytes(data_of(), KIND)
    assert meta == META
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert arrays[name].shape == array.shape
        assert arrays[name].tobytes() == array.tobytes()


def test_the_same_content_gives_the_same_bytes():
    swapped = dict(reversed(META.items()))
    assert data_of() == data_of(meta=swapped)
    strided = {**ARRAYS, "bytes": np.asfortranarray(ARRAYS["bytes"])}
    assert data_of() == data_of(arrays=strided)
    big_endian = {**ARRAYS, "words": ARRAYS["words"].astype(">u8")}
    assert data_of() == data_of(arrays=big_endian)


def test_a_file_holds_those_bytes_and_leaves_nothing_beside_it(tmp_path):
    storage.write_file(tmp_path / "model", KIND, META, ARRAYS)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == data_of()
    meta, _ = storage.read_file(tmp_path / "model", KIND)
    assert meta == META


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"something older")
    storage.write_file(str(path), KIND, META, ARRAYS)
    assert path.read_bytes() == data_of()


def test_a_write_that_is_stopped_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "model"
    path.write_bytes(b"something older")

    def stopped(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        storage.write_file(path, KIND, META, ARRAYS)
    assert path.read_bytes() == b"something older"
    assert [found.name for found in tmp_path.iterdir()] == ["model"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"Cannot write .*nowhere.*Choose a folder that exists"):
        storage.write_file(tmp_path / "nowhere" / "model", KIND, META, ARRAYS)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(StorageError, match="Cannot write"):
        storage.write_file(tmp_path / "taken", KIND, META, ARRAYS)
    with pytest.raises(StorageError, match="Cannot read"):
        storage.read_file(tmp_path / "taken", KIND)
    assert [found.name for found in tmp_path.iterdir()] == ["taken"]


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"Cannot read .*none.*Check the path"):
        storage.read_file(tmp_path / "none", KIND)


def test_a_file_cut_at_any_length_is_refused():
    data = data_of()
    for length in range(len(data)):
        with pytest.raises(StorageError) as caught:
            storage.from_bytes(data[:length], KIND, name="m.spinney")
        text = str(caught.value)
        assert text.startswith("'m.spinney'")
        if length < 8:
            assert "is not a Spinney file" in text
        elif length < 20 + 32:
            assert "is cut short. Copy it again" in text
        else:
            assert "is damaged or cut short: its checksum does not match" in text


def test_a_byte_flipped_anywhere_is_noticed():
    data = data_of()
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x20
        with pytest.raises(StorageError, match=r"is not a Spinney file|format version|damaged"):
            storage.from_bytes(bytes(damaged), KIND)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x80\x04\x95", b"tree\nversion=v4", b"{}"])
def test_a_foreign_file_is_called_so(data):
    with pytest.raises(StorageError, match=r"is not a Spinney file\. Give the path of a model"):
        storage.from_bytes(data, KIND)


def test_a_newer_format_is_called_so():
    data = bytearray(data_of())
    data[8:12] = struct.pack("<I", storage.VERSION + 1)
    with pytest.raises(StorageError, match="has format version 2; this Spinney reads version 1"):
        storage.from_bytes(resigned(data), KIND)


def test_another_kind_of_file_is_called_so():
    with pytest.raises(StorageError, match="holds a test thing; expected a forest model"):
        storage.from_bytes(data_of(), "forest model")


@pytest.mark.parametrize(
    ("what", "old", "new"),
    [
        ("an object array", b'"<u8"', b'"|O8"'),
        ("a type of another width", b'"<u8"', b'"<u4"'),
        ("a negative shape", b"[2,3]", b"[2-3]"),
        ("a shape that claims more", b"[2,3]", b"[9,3]"),
        ("a shape that claims less", b"[2,3]", b"[1,3]"),
        ("no kind", b'"kind"', b'"kine"'),
        ("no JSON", b'{"arrays"', b'["arrays"'),
    ],
)
def test_a_forged_head_is_refused(what, old, new):
    data = data_of()
    assert data.count(old) == 1
    with pytest.raises(StorageError, match="has a malformed header"):
        storage.from_bytes(resigned(data.replace(old, new)), KIND)


def test_a_head_longer_than_the_file_is_refused():
    data = bytearray(data_of())
    for n_head in (2**63, 2**64 - 1, len(data), 0):
        data[12:20] = struct.pack("<Q", n_head)
        with pytest.raises(StorageError, match="has a malformed header"):
            storage.from_bytes(resigned(data), KIND)


def test_a_truth_value_is_true_or_false():
    data = data_of(arrays={"flags": np.array([True])})
    forged = bytearray(data)
    forged[-33] = 200
    with pytest.raises(StorageError, match="has a malformed header"):
        storage.from_bytes(resigned(forged), KIND)


@given(
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_any_forgery_is_read_or_refused(flips):
    data = bytearray(data_of())
    for place, value in flips:
        data[place % (len(data) - 32)] = value
    with contextlib.suppress(StorageError):
        storage.from_bytes(resigned(data), KIND)


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.zeros(1, np.complex128)])
def test_only_plain_arrays_can_be_kept(array):
    with pytest.raises(StorageError, match="A file cannot hold an array of"):
        storage.to_bytes(KIND, {}, {"a": array})
