from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import InternalError, ProtocolError, SettingError
from spinney.privacy import keys, streams
from spinney.privacy.keys import (
    KeyPair,
    Roster,
    SumSettings,
    derive_key,
    encode_parts,
)
from spinney.privacy.streams import add_stream, ring_words


def roster_of(n_parties):
    pairs = {f"p{i}": KeyPair.fresh() for i in range(n_parties)}
    return Roster.of({name: pair.public for name, pair in pairs.items()}), pairs


def test_two_parties_compute_the_same_secret():
    ann, bob, eve = KeyPair.fresh(), KeyPair.fresh(), KeyPair.fresh()
    assert ann.shared_with(bob.public) == bob.shared_with(ann.public)
    assert eve.shared_with(bob.public) != ann.shared_with(bob.public)


def test_the_key_agreement_is_that_of_rfc_7748():
    # Section 5.2: one iteration with the base point as scalar.
    nine = bytes([9]) + bytes(31)
    expected = "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
    assert KeyPair.of(nine).public.hex() == expected
    assert KeyPair.of(nine).shared_with(nine).hex() == expected


def test_a_private_half_is_never_printed():
    pair = KeyPair.of(bytes(range(32)))
    assert repr(pair.private) not in repr(pair)
    assert "private" not in repr(pair)


def test_a_private_key_of_the_wrong_length_is_refused():
    with pytest.raises(SettingError, match=r"must have 32 bytes; got 31\. Make one with"):
        KeyPair.of(bytes(31))


@pytest.mark.parametrize("public", [bytes(32), b"\x01" + bytes(31), bytes(31)])
def test_a_public_key_that_gives_everybody_the_same_secret_is_refused(public):
    with pytest.raises(ProtocolError, match="not usable for X25519"):
        KeyPair.fresh().shared_with(public)


def test_a_roster_sorts_names_and_numbers_them():
    a, b = KeyPair.fresh().public, KeyPair.fresh().public
    roster = Roster.of({"west": a, "east": b})
    assert roster.names == ("east", "west")
    assert roster.public_key("west") == a
    assert roster.position("west") == 1
    assert roster.bits(["west"]) == 2
    assert roster.bits(["east", "west", "west"]) == 3
    assert len(roster) == 2


@pytest.mark.parametrize("n_parties", [0, 1, 64])
def test_a_roster_of_too_few_or_too_many_is_refused(n_parties):
    with pytest.raises(SettingError, match=rf"between 2 and 63 parties; got {n_parties}\."):
        roster_of(n_parties)


def test_a_roster_that_is_unsorted_or_repeats_a_name_is_refused():
    a, b = KeyPair.fresh().public, KeyPair.fresh().public
    for names, public_keys in [(("b", "a"), (a, b)), (("a", "a"), (a, b)), (("a", "b"), (a,))]:
        with pytest.raises(SettingError, match="names each party once, sorted"):
            Roster(names, public_keys)


def test_a_roster_with_a_short_or_shared_key_is_refused():
    a = KeyPair.fresh().public
    with pytest.raises(SettingError, match="key of party 'b' must have 32 bytes; got 3"):
        Roster.of({"a": a, "b": b"abc"})
    with pytest.raises(SettingError, match="Two parties have the same public key"):
        Roster.of({"a": a, "b": a})


def test_a_stranger_and_a_foreign_key_are_refused_by_name():
    roster, pairs = roster_of(3)
    roster.check("p1", pairs["p1"].public)
    with pytest.raises(ProtocolError, match=r"'eve' is not on the roster .* p0, p1, p2\."):
        roster.check("eve", pairs["p1"].public)
    with pytest.raises(ProtocolError, match="Party 'p1' presented a key that is not its key"):
        roster.check("p1", pairs["p2"].public)


@pytest.mark.parametrize(
    ("n_parties", "honest", "threshold", "min_survivors"),
    [(2, 1, 2, 2), (3, 2, 2, 2), (4, 2, 3, 3), (5, 3, 3, 3), (10, 5, 6, 6)],
)
def test_by_default_colluders_cannot_reach_the_threshold(
    n_parties, honest, threshold, min_survivors
):
    settings = SumSettings.of("job", roster_of(n_parties)[0])
    assert settings.honest == honest
    assert settings.threshold == threshold
    assert settings.min_survivors == min_survivors


def test_a_sum_contains_at_least_as_many_parties_as_are_promised_to_be_honest():
    settings = SumSettings.of("job", roster_of(5)[0], honest=4)
    assert (settings.threshold, settings.min_survivors) == (2, 4)


@pytest.mark.parametrize("honest", [0, -1, 5, 6])
def test_a_promise_that_no_party_or_every_party_is_honest_is_refused(honest):
    with pytest.raises(SettingError, match=rf"honest must be between 1 and 4 .* got {honest}\."):
        SumSettings.of("job", roster_of(5)[0], honest=honest)


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": 2},
        {"threshold": 6},
        {"threshold": 4, "min_survivors": 3},
        {"min_survivors": 6},
        {"min_survivors": 0},
        {"honest": 4, "threshold": 2, "min_survivors": 3},
    ],
)
def test_a_threshold_that_colluders_reach_or_survivors_miss_is_refused(options):
    with pytest.raises(SettingError, match=r"threshold must be above \d .* got threshold="):
        SumSettings.of("job", roster_of(5)[0], **options)


def test_settings_that_differ_in_anything_agree_on_nothing():
    roster, other = roster_of(5)[0], roster_of(5)[0]
    digests = {
        SumSettings.of("job", roster).agreed(),
        SumSettings.of("job2", roster).agreed(),
        SumSettings.of("job", other).agreed(),
        SumSettings.of("job", roster, threshold=4).agreed(),
        SumSettings.of("job", roster, min_survivors=4).agreed(),
        SumSettings.of("job", roster, honest=4, threshold=3, min_survivors=4).agreed(),
    }
    assert len(digests) == 6
    assert SumSettings.of("job", roster).agreed() in digests


def test_the_mask_of_a_pair_is_theirs_in_one_round_of_one_job():
    secret = bytes(range(32))
    own = keys.pair_mask_key(secret, b"told", 1, ("ann", "bob"))
    assert keys.pair_mask_key(secret, b"told", 1, ("bob", "ann")) == own
    others = [
        keys.pair_mask_key(bytes(32), b"told", 1, ("ann", "bob")),
        keys.pair_mask_key(secret, b"else", 1, ("ann", "bob")),
        keys.pair_mask_key(secret, b"told", 2, ("ann", "bob")),
        keys.pair_mask_key(secret, b"told", 1, ("ann", "cat")),
        keys.self_mask_key(secret, b"told", 1, "ann"),
        keys.self_mask_key(secret, b"told", 1, "bob"),
        keys.self_check(secret, b"told", 1, "ann"),
        keys.pair_check(secret, b"told", 1, ("ann", "bob")),
    ]
    assert len({own, *others}) == 9


PARTS = st.lists(st.one_of(st.text(), st.binary(), st.integers()), max_size=4)


@given(PARTS, PARTS)
def test_different_parts_have_different_encodings(one, other):
    same = [(type(x), x) for x in one] == [(type(x), x) for x in other]
    assert (encode_parts(*one) == encode_parts(*other)) == same


def test_a_derived_key_is_separated_by_everything_but_the_order_of_names():
    secret = bytes(range(32))
    base: dict[str, Any] = {"job": b"j", "round_number": 1, "names": ("a", "b")}
    variants = [
        derive_key(secret, "mask", **base),
        derive_key(secret, "check", **base),
        derive_key(secret[::-1], "mask", **base),
        derive_key(secret, "mask", **{**base, "job": b"k"}),
        derive_key(secret, "mask", **{**base, "round_number": 2}),
        derive_key(secret, "mask", **{**base, "names": ("a", "c")}),
        derive_key(secret, "mask", **{**base, "names": ("ab",)}),
        derive_key(secret, "mask", **{**base, "names": ("a", "b", "b")}),
    ]
    assert len(set(variants)) == len(variants)
    assert derive_key(secret, "mask", **{**base, "names": ("b", "a")}) == variants[0]
    assert all(len(key) == 32 for key in variants)


@given(
    sizes=st.lists(st.integers(0, 70), max_size=4),
    bits=st.lists(st.sampled_from([32, 64]), min_size=4, max_size=4),
    chunk=st.sampled_from([8, 16, 24, 64, 1 << 18]),
)
def test_a_stream_runs_on_and_comes_off_again_whatever_the_chunk(sizes, bits, chunk):
    key = bytes(range(32))
    vectors = [np.arange(n, dtype=f"u{b // 8}") for n, b in zip(sizes, bits, strict=False)]
    masked = [vector.copy() for vector in vectors]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "_CHUNK", chunk)
        add_stream(masked, key)
    whole = np.zeros(sum(vector.nbytes for vector in vectors), dtype=np.uint8)
    add_stream([whole], key)
    stream = whole.tobytes()
    for vector, hidden in zip(vectors, masked, strict=True):
        piece, stream = stream[: vector.nbytes], stream[vector.nbytes :]
        np.testing.assert_array_equal(hidden, vector + np.frombuffer(piece, hidden.dtype))
    add_stream(masked, key, subtract=True)
    for vector, bare in zip(vectors, masked, strict=True):
        np.testing.assert_array_equal(bare, vector)


def test_the_stream_is_aes_256_in_counter_mode():
    # NIST SP 800-38A uses another counter; the first block here is AES-256(key, 0).
    vector = np.zeros(4, dtype=np.uint32)
    add_stream([vector], bytes(32))
    assert vector.tobytes().hex() == "dc95c078a2408989ad48a21492842087"


def test_a_vector_that_is_not_contiguous_is_a_bug():
    with pytest.raises(InternalError, match="only to a contiguous vector"):
        add_stream([np.zeros((4, 4), dtype=np.uint32)[:, ::2]], bytes(32))


def test_a_fingerprint_tells_values_shapes_and_types_apart():
    zeros = np.zeros((2, 3), dtype=np.uint32)
    one = zeros.copy()
    one[1, 2] = 1
    variants: list[list[Any]] = [
        [zeros],
        [one],
        [zeros.reshape(3, 2)],
        [np.zeros(3, dtype=np.uint64)],
        [zeros, zeros],
        [],
    ]
    tags = {keys.fingerprint(bytes(range(32)), b"", vectors) for vectors in variants}
    tags.add(keys.fingerprint(bytes(range(32)), b"round", [zeros]))
    assert len(tags) == len(variants) + 1


@pytest.mark.parametrize(
    ("vectors", "bits"),
    [
        ([np.zeros(2)], [32]),
        ([np.zeros(2, dtype=bool)], [32]),
        ([np.zeros(2, dtype=np.int64)], [16]),
        ([np.zeros(2, dtype=np.int64)], [32, 64]),
    ],
)
def test_vectors_that_are_no_integers_or_have_no_ring_are_refused(vectors, bits):
    with pytest.raises(SettingError, match="takes integer vectors, each with ring bits of 32"):
        ring_words(vectors, bits)


def test_a_vector_is_reduced_modulo_its_ring_and_the_callers_is_left_alone():
    vector = np.array([[-1, 2**40 + 5], [-(2**63), 7]], dtype=np.int64).T
    narrow, wide = ring_words([vector, vector], [32, 64])
    np.testing.assert_array_equal(narrow, [[2**32 - 1, 0], [5, 7]])
    np.testing.assert_array_equal(wide.view(np.int64), vector)
    assert narrow.dtype == np.uint32
    assert wide.flags.c_contiguous
    assert not np.shares_memory(wide, vector)


def test_a_vector_given_away_is_masked_where_it_lies_if_its_memory_is_a_ring():
    vector = np.array([-1, 5], np.int64)
    (wide,) = ring_words([vector], [64], copy=False)
    assert np.shares_memory(wide, vector)
    assert wide.dtype == np.uint64
    (narrow,) = ring_words([vector], [32], copy=False)
    assert not np.shares_memory(narrow, vector)
    (spread,) = ring_words([vector[::2]], [64], copy=False)
    assert spread.flags.c_contiguous
