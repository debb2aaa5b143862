"""About how many ids stand at two parties is told; whether one id does cannot be asked."""

from itertools import pairwise

import numpy as np
import pytest

from spinney.privacy import id_overlap
from spinney.privacy.id_overlap import MOST_ANSWERS, NoMemory, OwnIds


class Kept:
    """A memory in a dictionary, as a ledger is one on disk."""

    def __init__(self):
        self.told = {}

    def settle(self, run, what, digest):
        return self.told.setdefault((run, what), digest)


def ids(random, n):
    return random.integers(0, 2**63, n, dtype=np.uint64)


def sketched(own):
    sketch = own.sketch()
    assert sketch is not None
    return sketch


def elsewhere(own, told, n_others=1):
    found = own.count_elsewhere(told, n_others)
    assert found is not None
    return found


def told_of(tables, random, memory=None):
    owns = [OwnIds(one, random.bytes(32), memory or NoMemory(), "rows") for one in tables]
    return owns, sum(sketched(own) for own in owns)


@pytest.mark.parametrize(
    ("n_parties", "n", "shared"), [(2, 500, 500), (3, 2000, 1500), (5, 900, 0)]
)
def test_the_number_is_right_within_its_error(n_parties, n, shared):
    random = np.random.default_rng(n)
    off = []
    for _ in range(12):
        tables = [ids(random, n) for _ in range(n_parties)]
        tables[1][:shared] = tables[0][:shared]
        owns, told = told_of(tables, random)
        found = [elsewhere(own, told, n_parties - 1) for own in owns]
        expected = [shared, shared, *[0] * (n_parties - 2)]
        off += [(one.about - n) / one.error for one, n in zip(found, expected, strict=True)]
    assert abs(np.mean(off)) < 4 / len(off) ** 0.5
    assert 0.5 < np.std(off) < 1.3  # the error is about what it is said to be, or less


def test_repeated_ids_count_once_and_the_error_tells_no_exact_number():
    random = np.random.default_rng(0)
    some, secret = ids(random, 100), random.bytes(32)
    once = OwnIds(some, secret, NoMemory(), "rows")
    twice = OwnIds(np.tile(some[::-1], 3), secret, NoMemory(), "rows")
    assert (sketched(once) == sketched(twice)).all()
    others = ids(random, 100)
    _, told = told_of([others], random)
    cut = [OwnIds(some[:n], secret, NoMemory(), "rows") for n in range(66, 97)]
    errors = {elsewhere(own, told + sketched(own)).error for own in cut}
    assert len(errors) == 1


def test_a_sketch_of_the_same_ids_is_always_the_same_and_of_others_few_leave():
    random, secret, memory = np.random.default_rng(1), bytes(32), Kept()
    tables = [ids(random, 40) for _ in range(MOST_ANSWERS + 1)]
    owns = [OwnIds(one, secret, memory, "rows") for one in tables]
    sketches = [sketched(own) for own in owns[:-1]]
    assert all((one != other).any() for one, other in pairwise(sketches))
    assert owns[-1].sketch() is None
    assert (sketched(OwnIds(tables[0], secret, memory, "rows")) == sketches[0]).all()
    assert OwnIds(tables[-1], secret, memory, "other rows").sketch() is not None


def test_answers_about_other_sums_come_to_an_end_and_the_same_is_answered_again():
    random, memory = np.random.default_rng(2), Kept()
    own = OwnIds(ids(random, 40), bytes(32), memory, "rows")
    sums = [told_of([ids(random, 40)], random)[1] + sketched(own) for _ in range(MOST_ANSWERS + 1)]
    found = [own.count_elsewhere(told, 1) for told in sums]
    assert None not in found[:-1]
    assert found[-1] is None
    assert own.count_elsewhere(sums[0], 1) == found[0]


@pytest.mark.parametrize("size", [2000, 2**62])
def test_sums_that_no_sketches_have_are_answered_with_nothing(size):
    own = OwnIds(np.arange(40, dtype=np.uint64), bytes(32), Kept(), "rows")
    found = elsewhere(own, np.full(id_overlap.N_CELLS, size))
    assert (found.about, found.error) == (0, 48)


def guessed(random, n_trials, monkeypatch):
    """Return how often the best guess about one id is right; a coin is right in half the cases.

    The attackers are all other parties and the coordinator. They know every other id of the
    victim, take it off, and lie: the cell of the id that they guess about says as much as it can.
    """
    monkeypatch.setattr(id_overlap, "N_CELLS", 64)
    x, others, n_right = np.uint64(77), ids(random, 20), 0
    cells, signs = id_overlap._places(np.array([x]))
    for _ in range(n_trials):
        is_there = bool(random.integers(2))
        held = np.append(others, x) if is_there else others
        own = OwnIds(held, random.bytes(32), NoMemory(), "rows")
        sent = sketched(own)
        lie = np.zeros(64, np.int64)
        lie[cells] = 8  # clipped to 2, as large as can be, and the answer is not cut off
        found = elsewhere(own, sent + lie)
        rest = lie.astype(float)
        clip = max(1, round(1.5 * np.mean(rest**2) ** 0.5))
        seen = np.clip(rest, -clip, clip)
        kept = np.mean(np.clip(rest + 1, -clip, clip) - np.clip(rest - 1, -clip, clip)) / 2
        places, towards = id_overlap._places(others)
        known = np.bincount(places, weights=towards, minlength=64)
        cell = (sent - known)[cells[0]] * signs[0]
        answer = (found.about * kept - (towards * seen[places]).sum()) / clip * signs[0]
        n_right += (cell + answer > 1) == is_there  # equal noise in both, so equal weights
    return n_right / n_trials


def test_a_guess_about_one_id_is_right_no_more_often_than_stated(monkeypatch):
    found = guessed(np.random.default_rng(3), 1500, monkeypatch)
    assert 0.55 < found < 0.60 + 0.04  # about what theory says, and no more (3 deviations)


def test_the_guess_would_be_right_without_noise(monkeypatch):
    monkeypatch.setattr(
        id_overlap,
        "_count_coins",
        lambda key, size: np.zeros(size, np.int64),  # noqa: ARG005
    )
    assert guessed(np.random.default_rng(4), 50, monkeypatch) == 1.0
