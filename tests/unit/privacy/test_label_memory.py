"""Randomised labels are remembered: encrypted, until their record is forgotten."""

import stat

import numpy as np
import pytest

from spinney.errors import StorageError
from spinney.privacy.label_memory import LabelMemory

IDS = np.array([7, 3, 9], np.uint64)
LABELS = np.array([0, 1, 1])
WORDS = np.array([[5], [6], [7]])


@pytest.fixture
def files(tmp_path):
    return tmp_path / "party.labels", tmp_path / "keys" / "party.key"


@pytest.fixture(params=["in memory", "on disk"])
def memory(request, files):
    made = LabelMemory() if request.param == "in memory" else LabelMemory.open(*files)
    made.remember("k-RR", IDS, LABELS, WORDS)
    return made


def test_answers_are_given_again_in_the_order_asked(memory):
    words, known = memory.recall("k-RR", np.array([9, 4, 7], np.uint64), np.array([1, 0, 0]))
    assert known.tolist() == [True, False, True]
    assert words[known].tolist() == [[7], [5]]
    assert memory.n_known("k-RR") == 3
    assert memory.n_known("unary") == 0


def test_another_scheme_has_answers_of_its_own(memory):
    words, known = memory.recall("unary", IDS, LABELS)
    assert words is None
    assert not known.any()


def test_a_changed_label_keeps_its_first_answer_and_its_party_is_told(memory, caplog):
    as_before, _ = memory.recall("k-RR", IDS, LABELS)
    assert not caplog.records
    words, known = memory.recall("k-RR", IDS, np.array([0, 0, 1]))
    assert known.all()
    assert words.tolist() == as_before.tolist()
    assert "The labels of 1 records have changed since they were randomised" in caplog.text


def test_what_is_forgotten_is_gone(memory):
    assert memory.forget(np.array([3, 100], np.uint64)) == 1
    assert memory.erasures == 1
    _, known = memory.recall("k-RR", IDS, np.array([0, 0, 1]))  # a new label is no longer a change
    assert known.tolist() == [True, False, True]
    assert memory.forget_all_but(np.array([9], np.uint64)) == 1
    assert memory.n_known("k-RR") == 1
    assert memory.forget(np.array([100], np.uint64)) == 0
    assert memory.erasures == 2


def test_a_file_is_read_back_and_shows_nothing_without_its_key(files):
    path, key = files
    memory = LabelMemory.open(path, key)
    canary = 0x1122334455667788
    memory.remember("k-RR", np.array([canary], np.uint64), np.array([1]), np.array([[canary]]))
    assert canary.to_bytes(8, "little") not in path.read_bytes()
    assert canary.to_bytes(8, "big") not in path.read_bytes()
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = LabelMemory.open(path, key)
    words, known = again.recall("k-RR", np.array([canary], np.uint64), np.array([1]))
    assert known.all()
    assert words is not None
    assert words[0, 0] == canary
    again.forget(np.array([canary], np.uint64))
    assert LabelMemory.open(path, key).n_known("k-RR") == 0
    assert LabelMemory.open(path, key).erasures == 1


def test_the_same_memory_is_never_written_to_the_same_bytes(files):
    path, key = files
    memory = LabelMemory.open(path, key)
    memory.remember("k-RR", IDS, LABELS, WORDS)
    first = path.read_bytes()
    memory.remember("unary", IDS, LABELS, WORDS)
    memory.forget(np.zeros(0, np.uint64))
    assert path.read_bytes()[:40] != first[:40]  # a fresh nonce


def test_a_wrong_or_missing_key_is_refused(files):
    path, key = files
    LabelMemory.open(path, key).remember("k-RR", IDS, LABELS, WORDS)
    key.write_bytes(bytes(32))
    with pytest.raises(StorageError, match="cannot be opened with this key"):
        LabelMemory.open(path, key)
    key.write_bytes(b"short")
    with pytest.raises(StorageError, match="must hold 32 bytes"):
        LabelMemory.open(path, key)
    key.unlink()
    with pytest.raises(StorageError, match=r"The key file .* is missing"):
        LabelMemory.open(path, key)


def test_a_changed_file_is_refused(files):
    path, key = files
    LabelMemory.open(path, key).remember("k-RR", IDS, LABELS, WORDS)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageError, match="or was changed"):
        LabelMemory.open(path, key)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(StorageError, match="of randomised labels is not one"):
        LabelMemory.open(path, key)
