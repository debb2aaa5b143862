"""Masked sums that need all parties: one ask opens them, and nothing else does."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from spinney.errors import PartyLostError, ProtocolError, SettingError
from spinney.privacy.keys import KeysAsk, SharesAsk
from spinney.privacy.masking import SecureSumParty
from unit.privacy.federations import Federation, sent  # type: ignore[import-not-found]

SIZE = 4000


def values_of(everyone, size=5):
    random = np.random.default_rng(len(everyone.names))
    return {name: [random.integers(-(2**40), 2**40, size)] for name in everyone.names}


def hidden(everyone, names):
    """Return the sum of some parties' masked vectors."""
    return sum(everyone.replies[name].vectors[0] for name in names)


def looks_uniform(words):
    counts = np.bincount(np.ascontiguousarray(words).view(np.uint8), minlength=256)
    return chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("n_parties", [2, 3, 4, 7])
def test_the_sum_over_all_is_there_without_a_share(n_parties):
    everyone = Federation(n_parties, needs_all=True)
    for _ in range(2):
        vectors = values_of(everyone)
        everyone.masked(vectors)
        (total,) = everyone.opened()
        np.testing.assert_array_equal(total, sum(vectors[name][0] for name in everyone.names))


def test_a_sum_without_one_party_is_not_opened_by_the_coordinator():
    everyone = Federation(3, needs_all=True)
    everyone.masked(values_of(everyone), everyone.names[:2])
    with pytest.raises(PartyLostError, match="Only 2 parties sent vectors"):
        everyone.opened()


@pytest.mark.parametrize("there", [("p0",), ("p1", "p2"), ("p0", "p1", "p3")])
def test_what_lacks_an_honest_party_looks_uniform(there):
    """Single vectors too: there is no other mask than those between parties."""
    everyone = Federation(4, needs_all=True)
    everyone.masked(everyone.zeros(SIZE))
    assert looks_uniform(hidden(everyone, there))
    assert not hidden(everyone, everyone.names).any()


def test_rounds_do_not_mix():
    everyone = Federation(3, needs_all=True)
    everyone.masked(everyone.zeros(SIZE))
    first = everyone.replies["p0"].vectors[0].copy()
    everyone.opened()
    everyone.masked(everyone.zeros(SIZE))
    assert looks_uniform(hidden(everyone, ("p1", "p2")) + first)
    assert not hidden(everyone, everyone.names).any()


@pytest.mark.parametrize(
    ("other", "about"),
    [
        ([np.zeros(SIZE, np.int64)], b"another step"),
        ([np.zeros(SIZE - 8, np.int64), np.zeros(8, np.int64)], b"a step"),
        ([np.zeros(2 * SIZE, np.int32)], b"a step"),
    ],
)
def test_parties_that_are_asked_different_things_have_masks_that_do_not_cancel(other, about):
    everyone = Federation(3, needs_all=True)
    ask = everyone.coordinator.begin_round()
    asked = dict.fromkeys(everyone.names, ([np.zeros(SIZE, np.int64)], b"a step"))
    for last in (asked["p2"], (other, about)):
        total = np.zeros(SIZE, np.uint64)
        for name, (vectors, step) in (asked | {"p2": last}).items():
            bits = [8 * vector.itemsize for vector in vectors]
            party = SecureSumParty(everyone.settings, name, everyone.pairs[name])
            reply = party.mask(ask, vectors, bits, about=step)
            total += np.concatenate([word.view(np.uint8) for word in reply.vectors]).view("u8")
        assert looks_uniform(total) == (last is not asked["p2"])


def test_a_round_hides_one_vector():
    everyone = Federation(3, needs_all=True)
    ask = everyone.masked(everyone.zeros())
    with pytest.raises(ProtocolError, match="already masks another vector"):
        everyone.parties["p0"].mask(ask, [np.ones(8, np.int64)], (64,))


def test_nobody_reveals_a_share():
    everyone = Federation(3, needs_all=True)
    everyone.masked(everyone.zeros())
    ask = sent(everyone.coordinator.end_vectors())
    for one in (ask, replace(ask, survivors=("p0", "p1"), dropped=("p2",))):
        with pytest.raises(ProtocolError, match="need all parties, so there is nothing to unmask"):
            everyone.parties["p0"].unmask(one)


def test_parties_that_do_not_agree_on_it_share_no_mask():
    """A party that thinks that some may be missing waits for keys that nobody makes."""
    everyone = Federation(3, needs_all=True)
    settings = replace(everyone.settings, needs_all=False)
    everyone.parties["p2"] = SecureSumParty(settings, "p2", everyone.pairs["p2"])
    with pytest.raises(ProtocolError, match="Party 'p2' has no keys of epoch 0"):
        everyone.masked(everyone.zeros())


def test_parties_that_agreed_on_other_settings_share_no_mask():
    everyone = Federation(3, needs_all=True)
    settings = replace(everyone.settings, job="job", honest=1)
    everyone.parties["p2"] = SecureSumParty(settings, "p2", everyone.pairs["p2"])
    everyone.masked(everyone.zeros(SIZE))
    assert looks_uniform(everyone.opened()[0])


def test_one_stolen_key_opens_what_its_party_sent():
    """As `masking` says under what is not covered: so a key is for one attempt, in memory alone."""
    everyone = Federation(3, needs_all=True)
    vectors = values_of(everyone)
    for _ in range(2):
        ask = everyone.masked(vectors)
        thief = SecureSumParty(everyone.settings, "p0", everyone.pairs["p0"])
        (zeros,) = thief.mask(ask, [np.zeros(5, np.int64)], (64,)).vectors
        read = everyone.replies["p0"].vectors[0] - zeros
        np.testing.assert_array_equal(read.view(np.int64), vectors["p0"][0])


def test_no_keys_are_made_and_no_lists_are_told():
    everyone = Federation(3, needs_all=True)
    party, ask = everyone.parties["p0"], everyone.coordinator.begin_round()
    with pytest.raises(ProtocolError, match="whose keys are on the roster"):
        party.make_keys(KeysAsk("job", 1, 1, 4))
    with pytest.raises(ProtocolError, match="whose keys are on the roster"):
        party.take_shares(SharesAsk("job", 1, everyone.names, (b"",) * 3))
    for told in ({"epoch": 1}, {"history": (7,)}):
        with pytest.raises(ProtocolError, match="has no epoch, and no lists"):
            party.mask(replace(ask, **told), everyone.zeros()["p0"], (64,))


def test_rounds_that_are_over_mask_nothing():
    everyone = Federation(3, needs_all=True)
    first = everyone.masked(everyone.zeros())
    everyone.opened()
    everyone.masked(everyone.zeros())
    for number in (first.round_number, 0, -1):
        ask = replace(first, round_number=number)
        with pytest.raises(ProtocolError, match="is over"):
            everyone.parties["p0"].mask(ask, everyone.zeros()["p0"], (64,))


def test_the_same_vector_is_masked_alike_again():
    everyone = Federation(3, needs_all=True)
    ask = everyone.masked(everyone.zeros())
    again = everyone.parties["p0"].mask(ask, everyone.zeros()["p0"], (64,))
    assert np.array_equal(again.vectors[0], everyone.replies["p0"].vectors[0])


def test_all_means_all():
    settings = Federation(3).settings
    with pytest.raises(SettingError, match="needs all of 3 parties cannot do with 2"):
        replace(settings, needs_all=True)
