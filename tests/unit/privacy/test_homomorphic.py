"""Homomorphic encryption: sums, packing, refreshing and refusals, for every scheme."""

from functools import cache

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import MissingExtraError, ProtocolError, SettingError
from spinney.privacy.homomorphic import KEY_BITS, unpack
from spinney.privacy.residues import FixedBase, draw_prime
from spinney.privacy.schemes import available, new_key, of_public_key, of_secret_key, scheme_of

SCHEMES = available()
each = pytest.mark.parametrize("scheme", SCHEMES)


@cache
def kept_key(scheme):
    """Return one key for all tests."""
    return new_key(scheme, 2048)


def test_both_schemes_are_tried_here():
    assert SCHEMES == ("okamoto-uchiyama", "paillier")
    assert scheme_of("auto") == "okamoto-uchiyama"
    assert scheme_of("paillier") == "paillier"


@each
@settings(max_examples=10)
@given(data=st.data())
def test_sums_are_those_of_the_numbers(scheme, data):
    key = kept_key(scheme)
    numbers = data.draw(st.lists(st.integers(0, 2**40), min_size=1, max_size=8))
    places = st.integers(0, len(numbers) - 1)
    groups = data.draw(st.lists(st.lists(places, min_size=1, max_size=6), min_size=1, max_size=5))
    adding = of_public_key(scheme, key.public_key)
    sums = adding.sums(adding.load(key.dump(key.encrypt(numbers)), len(numbers)), groups)
    found = key.decrypt(key.load(adding.dump(sums), len(groups)), 50)
    assert found == [sum(numbers[place] for place in group) for group in groups]


@each
def test_bucket_sums_are_bincounts(scheme):
    key, random = kept_key(scheme), np.random.RandomState(0)
    labels, bins = random.randint(0, 2, 60), random.randint(0, 8, 60)
    groups = [np.flatnonzero(bins == one).tolist() for one in range(8)]
    found = key.decrypt(key.sums(key.encrypt(labels.tolist()), groups), 10)
    assert found == np.bincount(bins, labels, minlength=8).astype(int).tolist()


@each
@pytest.mark.parametrize("n", [1, 7])
def test_differences_are_those_of_the_numbers(scheme, n):
    key = kept_key(scheme)
    parts = np.random.RandomState(2).randint(0, 2**20, n).tolist()
    wholes = [part * (place % 3 + 1) for place, part in enumerate(parts)]
    found = key.decrypt(key.differences(key.encrypt(wholes), key.encrypt(parts)), 40)
    assert found == [whole - part for whole, part in zip(wholes, parts, strict=True)]


@each
def test_a_number_without_an_inverse_is_refused(scheme):
    key = kept_key(scheme)
    one = key.encrypt([1])
    with pytest.raises(ProtocolError, match="Ciphertexts belong to another key, are damaged"):
        key.differences(one, [one[0] * 0])


@each
@pytest.mark.parametrize("n", [12, 200])
def test_packed_sums_come_apart_again(scheme, n):
    key = kept_key(scheme)
    numbers = np.random.RandomState(1).randint(0, 2**20, n).tolist()
    numbers[:2] = [2**20 - 1, 2**20 - 1]  # full fields do not overflow into each other
    packed = key.packed(key.encrypt(numbers), n, 20, 4)
    assert unpack(key.decrypt(packed, 80), n, 20, 4) == numbers


@each
def test_a_full_ciphertext_has_room_for_what_it_says(scheme):
    key = kept_key(scheme)
    largest = (1 << key.room) - 1
    assert key.decrypt(key.encrypt([largest]), key.room) == [largest]


@each
def test_refreshed_ciphertexts_are_others_of_the_same_numbers(scheme):
    key = kept_key(scheme)
    sums = key.sums(key.encrypt([3, 4]), [[0, 1], [1]])
    fresh = key.refreshed(sums)
    assert key.dump(fresh) != key.dump(sums)
    assert key.decrypt(fresh, 4) == [7, 4]


@each
def test_equal_numbers_have_different_ciphertexts_of_one_length(scheme):
    key = kept_key(scheme)
    one, other = (key.dump(key.encrypt([1])) for _ in range(2))
    assert one != other
    large = key.dump(key.encrypt([2**40]))
    assert len(one) == len(large)  # no exponent tells a magnitude


@each
def test_a_key_that_was_written_down_is_the_same(scheme):
    key = kept_key(scheme)
    again = of_secret_key(scheme, key.public_key, key.secret_key)
    assert again.key_id == key.key_id
    assert again.decrypt(again.load(key.dump(key.encrypt([9])), 1), 4) == [9]


@each
def test_numbers_out_of_range_are_refused(scheme):
    key = kept_key(scheme)
    with pytest.raises(ProtocolError, match="another key, are damaged, or are out of range"):
        key.decrypt(key.encrypt([17]), 4)


@each
def test_ciphertexts_of_another_key_are_refused(scheme):
    key, other = kept_key(scheme), new_key(scheme, 2048)
    with pytest.raises(ProtocolError, match="another key, are damaged, or are out of range"):
        key.decrypt(key.load(other.dump(other.encrypt([1, 2])), 2), 40)


@each
@pytest.mark.parametrize("damage", ["cut", "empty", "more", "text"])
def test_damaged_ciphertexts_are_refused(scheme, damage):
    key = kept_key(scheme)
    data = key.dump(key.encrypt([1, 2, 3]))
    data = {"cut": data[:-1], "empty": b"", "more": data, "text": b"abc" * 100}[damage]
    with pytest.raises(ProtocolError, match="another key, are damaged, or are out of range"):
        key.load(data, 4 if damage == "more" else 3)


@each
@pytest.mark.parametrize("data", [b"", b"\0" * 256, b"key", b"\1" * 800])
def test_what_is_no_key_is_refused(scheme, data):
    with pytest.raises(ProtocolError, match="key of 2048 or 3072 bits"):
        of_public_key(scheme, data)


@pytest.mark.slow
@each
def test_longer_keys_work_the_same(scheme):
    key = new_key(scheme, KEY_BITS[1])
    assert key.room > kept_key(scheme).room
    assert key.decrypt(key.sums(key.encrypt([5, 6]), [[0, 1]]), 8) == [11]


def test_a_stored_key_that_does_not_fit_its_public_key_is_refused():
    key, other = (new_key("okamoto-uchiyama", 2048) for _ in range(2))
    with pytest.raises(ProtocolError, match="not an Okamoto-Uchiyama key"):
        of_secret_key("okamoto-uchiyama", other.public_key, key.secret_key)


@each
def test_powers_of_what_others_send_take_the_same_time_whatever_it_is(scheme, monkeypatch):
    """The secret exponent meets a foreign number only in GMP's own constant-time power."""
    key = new_key(scheme, 2048)
    sent = key.encrypt([1, 2, 3])

    def quick(*_):
        raise AssertionError

    monkeypatch.setattr("gmpy2.powmod", quick)
    monkeypatch.setattr("gmpy2.powmod_base_list", quick)
    assert key.decrypt(sent, 4) == [1, 2, 3]


@each
def test_a_table_of_powers_gives_the_powers(scheme):
    modulus = kept_key(scheme)._modulus
    powers = FixedBase(gmpy2.mpz(12345), modulus, 4)
    for exponent in (0, 1, 255, 256, 2**32 - 1, 0x01020304):
        found = powers.power(exponent.to_bytes(4, "little"))
        assert found == pow(12345, exponent, int(modulus))


def test_primes_are_drawn_of_the_length_asked_for():
    drawn = {draw_prime(64) for _ in range(20)}
    assert len(drawn) == 20
    assert all(gmpy2.is_prime(one) and one >> 62 == 3 for one in drawn)


def test_other_key_sizes_and_schemes_are_refused():
    with pytest.raises(SettingError, match="key_bits must be 2048 or 3072; got 256"):
        new_key("paillier", 256)
    with pytest.raises(SettingError, match="scheme must be 'auto', 'okamoto-uchiyama' or"):
        scheme_of("rsa")


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("spinney.privacy.schemes.available", tuple)
    with pytest.raises(MissingExtraError, match=r"scheme='paillier' needs the package 'gmpy2'"):
        scheme_of("paillier")
    with pytest.raises(MissingExtraError, match=r"pip install 'spinney-trees\[he\]'"):
        scheme_of("auto")
