from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import ProtocolError
from spinney.privacy import keys as make
from spinney.privacy import sharing
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.keys import KeyPair, KeysAsk, Roster, SharesAsk, SumSettings
from spinney.privacy.sharing import (
    PRIME,
    EpochBook,
    EpochKeys,
    agree_with_all,
    deal_shares,
    recover_secret,
    weights,
)
from spinney.privacy.streams import add_stream

PAIRS = {name: KeyPair.fresh() for name in ("ann", "bob", "cat", "dan", "eve")}
SETTINGS = SumSettings.of("job", Roster.of({name: pair.public for name, pair in PAIRS.items()}))
ASK = KeysAsk("job", 1, 5, 3)
SECRET = st.one_of(st.binary(min_size=32, max_size=32), st.sampled_from([bytes(32), b"\xff" * 32]))


def keys_of(name, settings=SETTINGS, ask=ASK, key=None):
    """Return a party's keys of an epoch."""
    secrets = agree_with_all(PAIRS[name] if key is None else key, settings.roster)
    return EpochKeys(settings, name, secrets, ask)


def epoch(settings=SETTINGS, ask=ASK, names=tuple(PAIRS)):
    """Return all parties' keys, the coordinator's book and the asks that deliver shares."""
    held = {name: keys_of(name, settings, ask) for name in names}
    book = EpochBook(settings, ask)
    for keys in held.values():
        book.add(keys.reply)
    return held, book, book.asks()


@pytest.fixture(scope="module")
def fresh():
    return epoch()


def test_the_field_is_a_prime_just_above_every_secret():
    assert PRIME > 2**256
    assert all(pow(base, PRIME - 1, PRIME) == 1 for base in (2, 3, 5, 7, 11, 13, 17, 19))
    assert all(pow(3, n - 1, n) != 1 for n in range(2**256 + 1, PRIME, 2))


@given(secret=SECRET, n_parties=st.integers(2, 7), data=st.data())
def test_any_threshold_of_shares_gives_the_secret_back(secret, n_parties, data):
    threshold = data.draw(st.integers(2, n_parties))
    shares = deal_shares(secret, threshold=threshold, n_parties=n_parties)
    assert all(len(share) == sharing.SHARE_BYTES for share in shares)
    for size in range(threshold, n_parties + 1):
        for chosen in combinations(range(n_parties), size):
            assert recover_secret(weights(chosen), [shares[i] for i in chosen]) == secret


@given(secret=SECRET, other=SECRET)
def test_fewer_shares_fit_every_secret(secret, other):
    """For every other secret, some last share completes the same threshold - 1 shares to it."""
    shares = deal_shares(secret, threshold=3, n_parties=5)
    weight = weights((0, 1, 2))
    known = sum(
        w * int.from_bytes(s, "little") for w, s in zip(weight[:2], shares[:2], strict=True)
    )
    wanted = int.from_bytes(other, "little")
    last = (wanted - known) * pow(weight[2], -1, PRIME) % PRIME
    forged = [*shares[:2], last.to_bytes(sharing.SHARE_BYTES, "little")]
    assert recover_secret(weight, forged) == other
    if other != secret:
        assert forged[2] != shares[2]


def test_a_secret_is_dealt_anew_every_time():
    secret = bytes(range(32))
    one, two = (deal_shares(secret, threshold=2, n_parties=3) for _ in range(2))
    assert not set(one) & set(two)


def test_letters_open_for_their_recipients_and_carry_the_right_shares():
    held, _, asks = epoch()
    for name, keys in held.items():
        reply = keys.take(asks[name])
        assert (reply.job, reply.epoch, reply.sender) == ("job", 1, name)
        assert keys.participants == tuple(PAIRS)
    for owner, keys in held.items():
        for number, own in keys._rounds.items():
            for which, secret in enumerate((own.self_seed, own.pair_key)):
                shares = [
                    held[name]._rounds[number].shares_from[owner][which]
                    for name in ("ann", "cat", "eve")
                ]
                assert recover_secret(weights((0, 2, 4)), shares) == secret


def test_the_same_letters_twice_are_one_delivery_and_others_are_refused():
    held, _, asks = epoch()
    assert held["bob"].take(asks["bob"]) == held["bob"].take(asks["bob"])
    fewer = asks["bob"].senders[:-1]
    other = SharesAsk("job", 1, fewer, asks["bob"].letters[:-1])
    with pytest.raises(ProtocolError, match="Epoch 1 already has other shares"):
        held["bob"].take(other)


def flipped(data, place):
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize("place", [0, 11, 12, 60, -17, -1])
def test_a_changed_letter_is_refused_by_its_sender(fresh, place):
    held, _, asks = fresh
    letters = list(asks["bob"].letters)
    letters[2] = flipped(letters[2], place % len(letters[2]))
    with pytest.raises(ProtocolError, match="shares from party 'cat' cannot be opened: they were"):
        held["bob"].take(replace(asks["bob"], letters=tuple(letters)))


def test_letters_that_were_swapped_or_meant_for_somebody_else_are_refused(fresh):
    held, _, asks = fresh
    letters = list(asks["bob"].letters)
    letters[0], letters[2] = letters[2], letters[0]
    with pytest.raises(ProtocolError, match="shares from party 'ann' cannot be opened"):
        held["bob"].take(replace(asks["bob"], letters=tuple(letters)))
    with pytest.raises(ProtocolError, match="sealed with another key, or for another party"):
        held["bob"].take(asks["ann"])


@pytest.mark.parametrize(
    "ask", [replace(ASK, epoch=2), replace(ASK, first_round=6), replace(ASK, job="other")]
)
def test_letters_of_another_epoch_round_or_job_are_refused(fresh, ask):
    held, _, _ = fresh
    settings = replace(SETTINGS, job=ask.job)
    _, _, asks = epoch(settings, ask)
    with pytest.raises(ProtocolError, match="cannot be opened"):
        held["bob"].take(asks["bob"])


def test_letters_of_parties_that_agreed_on_another_threshold_are_refused(fresh):
    held, _, _ = fresh
    _, _, asks = epoch(SumSettings.of("job", SETTINGS.roster, threshold=4))
    with pytest.raises(ProtocolError, match=r"other settings\. Compare the rosters"):
        held["bob"].take(asks["bob"])


def test_a_party_that_pretends_to_be_another_cannot_seal_letters(fresh):
    held, _, _ = fresh
    impostor = keys_of("ann", key=KeyPair.fresh())
    book = EpochBook(SETTINGS, ASK)
    book.add(replace(impostor.reply, public_key=PAIRS["ann"].public))
    for name in ("bob", "cat", "dan", "eve"):
        book.add(held[name].reply)
    with pytest.raises(ProtocolError, match="shares from party 'ann' cannot be opened"):
        held["bob"].take(book.asks()["bob"])


def test_a_delivery_with_strangers_repeats_or_without_its_reader_is_refused(fresh):
    held, _, asks = fresh
    ask = asks["bob"]
    with pytest.raises(ProtocolError, match="'zoe' is not on the roster"):
        held["bob"].take(replace(ask, senders=("ann", "bob", "cat", "dan", "zoe")))
    for senders in [
        ("ann", "bob", "cat", "dan", "dan"),
        ("bob", "ann", "cat", "dan", "eve"),
        ("ann", "cat", "dan", "eve", "eve"),
    ]:
        with pytest.raises(ProtocolError, match="named once, sorted, with 'bob' among them"):
            held["bob"].take(replace(ask, senders=senders))


def without(ask, *dropped):
    kept = [i for i, name in enumerate(ask.senders) if name not in dropped]
    return replace(
        ask,
        senders=tuple(ask.senders[i] for i in kept),
        letters=tuple(ask.letters[i] for i in kept),
    )


def test_an_epoch_of_too_few_parties_is_refused(fresh):
    held, _, asks = fresh
    with pytest.raises(ProtocolError, match="Epoch 1 has 2 parties; 3 are needed"):
        held["bob"].take(without(asks["bob"], "ann", "cat", "dan"))
    with pytest.raises(ProtocolError, match="with 'bob' among them"):
        held["bob"].take(without(asks["bob"], "bob"))


def test_a_truncated_delivery_is_refused(fresh):
    held, _, asks = fresh
    letters = asks["bob"].letters
    for bad in [letters[:-1], (*letters[:-1], letters[-1][:-1]), (*letters, letters[0])]:
        with pytest.raises(ProtocolError, match="truncated or padded: it must have 5 parts"):
            held["bob"].take(replace(asks["bob"], letters=bad))


@pytest.mark.parametrize("field", ["sealed_pairs", "self_checks", "letters"])
def test_truncated_keys_are_refused_by_the_coordinator(fresh, field):
    held, _, _ = fresh
    book = EpochBook(SETTINGS, ASK)
    value = getattr(held["ann"].reply, field)
    with pytest.raises(ProtocolError, match="message from party 'ann' is truncated or padded"):
        book.add(replace(held["ann"].reply, **{field: value[:-1]}))
    assert book.participants == ()


@pytest.mark.parametrize("n_rounds", [0, -1, sharing.MAX_EPOCH_ROUNDS + 1])
def test_an_epoch_of_no_or_too_many_rounds_is_refused(n_rounds):
    with pytest.raises(ProtocolError, match=rf"between 1 and 4096 rounds; got {n_rounds}\."):
        keys_of("ann", ask=replace(ASK, n_rounds=n_rounds))


def test_the_secrets_of_an_epoch_are_all_different_and_never_printed():
    held, _, _ = epoch()
    secrets = [
        secret
        for keys in held.values()
        for own in keys._rounds.values()
        for secret in (own.self_seed, own.pair_key)
    ]
    assert len(set(secrets)) == len(secrets) == 5 * 3 * 2
    printed = repr([keys._rounds for keys in held.values()])
    assert not any(repr(secret) in printed for secret in secrets)


ROUND, HISTORY = 6, bytes(32)
AGREED, TOLD = SETTINGS.agreed(), make.digest(SETTINGS.agreed(), HISTORY)


def masked_round():
    """Let all parties mask one number in the middle round; return keys, book and masked vectors."""
    held, book, asks = epoch()
    vectors = {name: np.array([1000 + i], dtype=np.uint64) for i, name in enumerate(PAIRS)}
    for name, keys in held.items():
        keys.take(asks[name])
        for key, subtract in keys.mask_keys(ROUND, HISTORY, [vectors[name]]):
            add_stream([vectors[name]], key, subtract=subtract)
    return held, book, vectors


def content(thing, seen=None):
    """Yield all bytes that can be reached from an object."""
    seen = set() if seen is None else seen
    if isinstance(thing, bytes):
        yield thing
    elif id(thing) not in seen and not isinstance(thing, str | int | None):
        seen.add(id(thing))
        inner = list(thing.values()) if isinstance(thing, dict) else []
        inner += list(thing) if isinstance(thing, list | tuple | set | frozenset) else []
        inner += [getattr(thing, name) for name in getattr(thing, "__slots__", ())]
        inner += list(getattr(thing, "__dict__", {}).values())
        for part in inner:
            yield from content(part, seen)


def secrets_of(keys):
    return [s for own in keys._rounds.values() for s in (own.self_seed, own.pair_key)]


def holds(thing, secret):
    return any(secret in piece for piece in content(thing))


def self_stream(seed, name):
    stream = np.zeros(1, dtype=np.uint64)
    add_stream([stream], make.self_mask_key(seed, AGREED, ROUND, name))
    return stream


def pair_stream(secret, own, other):
    """The mask with `other` as it is in `own`'s vector."""
    stream = np.zeros(1, dtype=np.uint64)
    key = make.pair_mask_key(secret, TOLD, ROUND, (own, other))
    add_stream([stream], key, subtract=own > other)
    return stream


def bytes_explained_by(masked, stream_of_secret):
    """Return the low bytes of all inputs for which some secret explains a masked number."""
    found: set[int] = set()
    for _ in range(5000):  # misses one of 256 with probability 1e-6
        found.add(int((masked - stream_of_secret(secret_bytes(32)))[0]) % 256)
    return found


def test_nothing_in_the_coordinators_state_is_a_secret_and_nothing_in_a_partys_is_anothers():
    held, book, _ = masked_round()
    for name, keys in held.items():
        assert len(secrets_of(keys)) == 4  # the first round is forgotten
        for secret in secrets_of(keys):
            assert not holds(book, secret)
            assert not any(holds(held[other], secret) for other in held if other != name)
            assert holds(keys, secret)  # the search can find what is there


def test_a_curious_coordinator_and_its_colluders_can_explain_a_vector_by_any_input():
    """They hold all of cat's pair masks and threshold - 1 shares of its self seed: b hides x."""
    held, _, vectors = masked_round()
    cat = held["cat"]._rounds[ROUND]
    bare = vectors["cat"].copy()
    for other in ("ann", "bob", "dan", "eve"):
        bare -= pair_stream(cat.pair_with[other], "cat", other)
    np.testing.assert_array_equal(bare, 1002 + self_stream(cat.self_seed, "cat"))
    assert bytes_explained_by(bare, lambda seed: self_stream(seed, "cat")) == set(range(256))
    shares = [held[name]._rounds[ROUND].shares_from["cat"][0] for name in ("ann", "bob", "dan")]
    assert recover_secret(weights((0, 1)), shares[:2]) != cat.self_seed
    assert recover_secret(weights((0, 1, 3)), shares) == cat.self_seed


def test_after_the_answers_the_masks_between_honest_parties_hide_all_but_their_sum():
    """All self seeds are known, ann and bob collude: cat's mask with dan and eve hides it."""
    held, _, vectors = masked_round()
    own = {name: keys._rounds[ROUND] for name, keys in held.items()}
    bare = {}
    for name in ("cat", "dan", "eve"):
        bare[name] = vectors[name] - self_stream(own[name].self_seed, name)
        for colluder in ("ann", "bob"):
            bare[name] += pair_stream(own[colluder].pair_with[name], colluder, name)
    np.testing.assert_array_equal(bare["cat"] + bare["dan"] + bare["eve"], [1002 + 1003 + 1004])

    def stream(secret):
        return sum(pair_stream(secret, "cat", name) for name in ("dan", "eve"))

    assert bytes_explained_by(bare["cat"], stream) == set(range(256))


def test_a_dropped_partys_late_vector_stays_hidden():
    held, book, vectors = masked_round()
    survivors = frozenset(PAIRS) - {"eve"}
    revealed = {name: held[name].reveal(ROUND, survivors) for name in survivors}
    checks = {name: held[name].pair_checks(ROUND, survivors) for name in survivors}
    masks = book.masks_left(ROUND, HISTORY, sorted(survivors), revealed, checks)
    assert len(masks) == 4 + 4
    for name in survivors:
        self_share, pair_share = held[name]._rounds[ROUND].shares_from["eve"]
        assert revealed[name][4] == pair_share
        assert self_share not in revealed[name]
    eve = held["eve"]._rounds[ROUND]
    opened = recover_secret(weights((0, 1, 2)), [revealed[n][4] for n in ("ann", "bob", "cat")])
    assert opened == eve.pair_key
    pairs = book._unsealed("eve", opened, ROUND)
    bare = vectors["eve"].copy()
    for other in survivors:
        bare -= pair_stream(pairs[other], "eve", other)
    np.testing.assert_array_equal(bare, 1004 + self_stream(eve.self_seed, "eve"))
    assert bytes_explained_by(bare, lambda seed: self_stream(seed, "eve")) == set(range(256))


def test_two_parties_share_a_secret_for_each_round_that_no_other_round_or_epoch_has():
    held, _, _ = epoch()
    later, _, _ = epoch(ask=replace(ASK, epoch=2))
    longer, _, _ = epoch(ask=replace(ASK, n_rounds=4))  # parties that are told different lengths
    secrets = set()
    for one, two in combinations(PAIRS, 2):
        for number in held[one]._rounds:
            for keys in (held, later, longer):
                secret = keys[one]._rounds[number].pair_with[two]
                assert secret == keys[two]._rounds[number].pair_with[one]
                assert len(secret) == 32
                secrets.add(secret)
    assert len(secrets) == 10 * 3 * 3


def test_a_pair_key_opens_the_pair_secrets_of_its_own_party_and_round_only():
    held, book, _ = masked_round()
    eve = held["eve"]._rounds
    opened = book._unsealed("eve", eve[ROUND].pair_key, ROUND)
    assert {name: opened[name] for name in eve[ROUND].pair_with} == eve[ROUND].pair_with
    assert book._unsealed("eve", eve[ROUND].pair_key, ROUND + 1) == {}
    assert book._unsealed("dan", eve[ROUND].pair_key, ROUND) == {}
    assert book._unsealed("eve", eve[ROUND].self_seed, ROUND) == {}


def test_pair_secrets_of_rounds_that_are_over_are_forgotten_and_nowhere_at_the_coordinator():
    held, book, _ = masked_round()
    later, _, _ = epoch()
    first = later["ann"]._rounds[5].pair_with["bob"]  # same roster keys, epoch and round
    assert not holds(held["ann"]._rounds, first)
    now = held["ann"]._rounds[ROUND].pair_with["bob"]
    assert holds(held["ann"]._rounds, now)
    assert not holds(book, now)
