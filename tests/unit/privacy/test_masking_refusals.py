"""Secure sums: what parties and coordinator refuse, so that nobody sees a summand."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Barrier, BrokenBarrierError
from typing import Any

import numpy as np
import pytest

from spinney.errors import ProtocolError, SettingError
from spinney.privacy.keys import KeyPair
from spinney.privacy.masking import SecureSumParty
from spinney.privacy.sharing import (
    SHARE_BYTES,
    EpochKeys,
    agree_with_all,
    recover_secret,
    weights,
)
from spinney.transport.codec import encode
from unit.privacy.federations import Federation  # type: ignore[import-not-found]

CANARY = 123456789


def test_a_retry_gives_the_same_bytes_and_another_vector_is_refused():
    everyone = Federation(3)
    vectors = {name: [np.arange(5)] for name in everyone.names}
    ask = everyone.masked(vectors)
    for name, party in everyone.parties.items():
        again = party.mask(ask, vectors[name], (64,))
        assert encode(again) == encode(everyone.replies[name])
    unmask = everyone.coordinator.end_vectors()
    party = everyone.parties["p0"]
    assert party.unmask(unmask) == party.unmask(unmask)
    others: list[Any] = [
        ([np.arange(1, 6)], (64,)),
        ([np.arange(5)], (32,)),
        ([np.arange(5).reshape(5, 1)], (64,)),
        ([np.arange(5), np.arange(5)], (64, 64)),
    ]
    for other, bits in others:
        with pytest.raises(ProtocolError, match="Round 1 already masks another vector"):
            party.mask(ask, other, bits)


def test_both_shares_of_a_party_are_never_revealed():
    everyone = Federation(5)
    everyone.masked(everyone.zeros())
    ask = everyone.coordinator.end_vectors()
    party = everyone.parties["p0"]
    with pytest.raises(ProtocolError, match="both shares of party 'p4' were asked for"):
        party.unmask(replace(ask, dropped=("p4",)))
    party.unmask(ask)
    other = replace(ask, survivors=everyone.names[:4], dropped=("p4",))
    with pytest.raises(ProtocolError, match=r"opened for another list of survivors\. .* never"):
        party.unmask(other)


def test_of_two_lists_that_come_at_once_one_is_answered(monkeypatch):
    everyone = Federation(3)
    everyone.masked(everyone.zeros())
    whole = everyone.coordinator.end_vectors()
    part = replace(whole, survivors=("p0", "p1"), dropped=("p2",))
    inside = Barrier(2, timeout=0.2)  # passed only if both asks are inside the party's lock

    def reveal(self, number, survivors, reveal=EpochKeys.reveal):
        with suppress(BrokenBarrierError):
            inside.wait()
            pytest.fail("Two lists were looked at together.")
        return reveal(self, number, survivors)

    def answered(ask):
        try:
            return everyone.parties["p0"].unmask(ask)
        except ProtocolError:
            return None

    monkeypatch.setattr(EpochKeys, "reveal", reveal)
    with ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(answered, (whole, part)))
    assert replies.count(None) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"survivors": ("p0", "p1"), "dropped": ("p2", "p3", "p4")}, "2 survivors; at least 3"),
        ({"survivors": ("p1", "p2", "p3", "p4"), "dropped": ("p0",)}, "'p0' is not among the surv"),
        ({"survivors": ("p0", "p1", "p2")}, "must name each party of the epoch once"),
        ({"survivors": ("p0", "p1", "p2", "p3", "p4", "p4")}, "each party of the epoch once"),
        ({"survivors": ("p0", "p1", "p2", "p3", "zoe")}, "each party of the epoch once"),
        ({"round_number": 2}, "Party 'p0' sent no vector in round 2"),
        ({"round_number": 9}, "Round 9 is over, or epoch 1 has no keys for it"),
        ({"epoch": 2}, "Party 'p0' has no keys of epoch 2. Begin a new epoch"),
        ({"job": "spy"}, "A message for job 'spy' came to job 'job'"),
    ],
)
def test_a_party_refuses_to_open_a_round_for_a_wrong_list(change, message):
    everyone = Federation(5)
    everyone.masked(everyone.zeros())
    ask = everyone.coordinator.end_vectors()
    with pytest.raises(ProtocolError, match=message):
        everyone.parties["p0"].unmask(replace(ask, **change))
    everyone.parties["p0"].unmask(ask)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"round_number": 1, "history": ()}, "Round 1 is over"),
        ({"round_number": 5, "history": (31, 0, 0, 0)}, "or epoch 1 has no keys for it"),
        ({"history": ()}, "survivors named for the rounds before 2 are not those that party 'p0'"),
        (
            {"history": (7,)},
            "survivors named for the rounds before 2 are not those that party 'p0'",
        ),
        ({"epoch": 0}, "no keys of epoch 0"),
        ({"job": "spy"}, "A message for job 'spy' came"),
    ],
)
def test_a_party_refuses_to_mask_out_of_turn(change, message):
    everyone = Federation(5)
    everyone.masked(everyone.zeros())
    everyone.opened()
    ask = everyone.masked(everyone.zeros())
    with pytest.raises(ProtocolError, match=message):
        everyone.parties["p0"].mask(replace(ask, **change), everyone.zeros()["p0"], (64,))


def test_a_party_makes_keys_once_per_epoch_and_never_for_a_round_it_answered():
    everyone = Federation(3)
    party, book = everyone.parties["p0"], everyone.coordinator._book
    assert party.make_keys(book.ask) == party.make_keys(book.ask)
    for ask in (replace(book.ask, epoch=0), replace(book.ask, n_rounds=9)):
        with pytest.raises(ProtocolError, match="is over, or was begun for other rounds"):
            party.make_keys(ask)
    everyone.masked(everyone.zeros())
    with pytest.raises(ProtocolError, match="must be for rounds above 1; got 1 as the first"):
        party.make_keys(replace(book.ask, epoch=2))
    with pytest.raises(ProtocolError, match="A message for job 'spy'"):
        party.make_keys(replace(book.ask, job="spy"))
    party.make_keys(replace(book.ask, epoch=2, first_round=2))
    with pytest.raises(ProtocolError, match="Epoch 2 has no shares yet; send them first"):
        party.mask(replace(everyone.coordinator.begin_round(), epoch=2), [np.zeros(1, int)], (64,))


def test_a_party_with_a_foreign_key_or_name_is_refused():
    everyone = Federation(3)
    with pytest.raises(ProtocolError, match="Party 'p1' presented a key that is not its key on"):
        SecureSumParty(everyone.settings, "p1", KeyPair.fresh())
    with pytest.raises(ProtocolError, match="Party 'zoe' is not on the roster"):
        SecureSumParty(everyone.settings, "zoe", KeyPair.fresh())
    ask = everyone.coordinator.begin_epoch()
    reply = replace(everyone.parties["p1"].make_keys(ask), public_key=KeyPair.fresh().public)
    with pytest.raises(ProtocolError, match="Party 'p1' presented a key that is not its key on"):
        everyone.coordinator.add_keys(reply)


def test_the_coordinator_refuses_replayed_reordered_and_foreign_replies():
    everyone = Federation(5, absent=("p4",))
    coordinator = everyone.coordinator
    first = everyone.masked(everyone.zeros(), ("p0", "p1"))
    old = everyone.replies["p1"]
    late = everyone.parties["p3"].mask(first, everyone.zeros()["p3"], (64,))
    with pytest.raises(ProtocolError, match="Party 'p0' already sent its vectors: a replay"):
        coordinator.add_vector(everyone.replies["p0"])
    everyone.masked(everyone.zeros(), ("p0", "p2", "p3"))
    right = everyone.replies["p0"]
    for reply, message in [
        (old, "Party 'p1' sent vectors of epoch 1, round 1, in epoch 1, round 2: replayed"),
        (late, "Party 'p3' sent vectors of epoch 1, round 1, in epoch 1, round 2: .* too late"),
        (replace(right, round_number=3), "Party 'p0' sent vectors of epoch 1, round 3"),
        (replace(right, epoch=0), "Party 'p0' sent vectors of epoch 0, round 2"),
        (replace(right, job="spy"), "A message for job 'spy' came to job 'job'"),
        (replace(right, sender="zoe"), "Party 'zoe' is not on the roster of this job"),
        (replace(right, sender="p4"), "Party 'p4' has no keys in epoch 1"),
        (replace(right, sender="p1", vectors=()), "vectors of party 'p1' in round 2 must be uint"),
        (replace(right, sender="p1", vectors=(np.zeros(7, np.uint64),)), "types and shapes"),
        (replace(right, sender="p1", vectors=(np.zeros(8, np.uint32),)), "types and shapes"),
    ]:
        with pytest.raises(ProtocolError, match=message):
            coordinator.add_vector(reply)
    np.testing.assert_array_equal(everyone.opened()[0], np.zeros(8))
    with pytest.raises(
        ProtocolError, match="Out of turn: job 'job' waits for a new epoch or round"
    ):
        coordinator.end_vectors()


def test_the_first_vector_must_be_unsigned_too():
    everyone = Federation(3)
    ask = everyone.coordinator.begin_round()
    reply: Any = everyone.parties["p0"].mask(ask, [np.zeros(2, int)], (64,))
    with pytest.raises(ProtocolError, match="vectors of party 'p0' in round 1 must be uint32 or"):
        everyone.coordinator.add_vector(replace(reply, vectors=(np.zeros(2),)))


def test_the_coordinator_refuses_shares_that_are_truncated_replayed_or_not_asked_for():
    everyone = Federation(5)
    everyone.masked(everyone.zeros(), ("p0", "p1", "p2", "p3"))
    ask = everyone.coordinator.end_vectors()
    reply = everyone.parties["p0"].unmask(ask)
    for bad in (reply.shares[:-1], (*reply.shares[:-1], reply.shares[-1][:-1])):
        with pytest.raises(ProtocolError, match="message from party 'p0' is truncated or padded"):
            everyone.coordinator.add_shares(replace(reply, shares=bad))
    with pytest.raises(ProtocolError, match="Party 'p4' is not a survivor of this round"):
        everyone.coordinator.add_shares(replace(reply, sender="p4"))
    everyone.coordinator.add_shares(reply)
    with pytest.raises(ProtocolError, match="Party 'p0' already sent its shares: a replay"):
        everyone.coordinator.add_shares(reply)


@pytest.mark.parametrize("owner", [1, 4])
def test_a_wrong_share_is_noticed_before_anything_is_unmasked(owner):
    everyone = Federation(5)
    everyone.masked(everyone.zeros(), ("p0", "p1", "p2", "p3"))
    ask = everyone.coordinator.end_vectors()
    for name in ("p0", "p1", "p2"):
        reply = everyone.parties[name].unmask(ask)
        shares = list(reply.shares)
        if name == "p1":
            shares[owner] = bytes(33)
        everyone.coordinator.add_shares(replace(reply, shares=tuple(shares)))
    with pytest.raises(ProtocolError, match=f"shares of party 'p{owner}' in round 1 do not fit"):
        everyone.coordinator.sums()


def test_a_party_that_restarted_has_no_keys_until_the_next_epoch():
    everyone = Federation(3)
    everyone.masked(everyone.zeros())
    everyone.opened()
    name = "p1"
    everyone.parties[name] = SecureSumParty(everyone.settings, name, everyone.pairs[name])
    with pytest.raises(ProtocolError, match="Party 'p1' has no keys of epoch 1"):
        everyone.masked(everyone.zeros())
    everyone.begin_epoch()
    everyone.masked(everyone.zeros())
    np.testing.assert_array_equal(everyone.opened()[0], np.zeros(8))


def test_after_a_lie_about_the_survivors_the_two_groups_cannot_be_summed_again():
    everyone = Federation(4)
    everyone.masked(everyone.zeros())
    truth = everyone.coordinator.end_vectors()
    lie = replace(truth, survivors=("p0", "p1", "p2"), dropped=("p3",))
    for name, told in (("p0", truth), ("p1", truth), ("p2", lie)):
        everyone.parties[name].unmask(told)
    ask = everyone.coordinator.begin_round()
    history = {"p0": (15,), "p1": (15,), "p2": (7,), "p3": (15,)}
    with pytest.raises(ProtocolError, match="rounds before 2 are not those that party 'p2' opened"):
        everyone.parties["p2"].mask(ask, everyone.zeros()["p2"], (64,))
    for name, party in everyone.parties.items():
        own = replace(ask, history=history[name])
        everyone.coordinator.add_vector(party.mask(own, everyone.zeros()["p0"], (64,)))
    unmask = everyone.coordinator.end_vectors()
    for party in everyone.parties.values():
        everyone.coordinator.add_shares(party.unmask(unmask))
    assert np.all(everyone.coordinator.sums()[0] != 0)  # the masks between the groups remain


def test_no_error_tells_anything_about_a_vector():
    everyone = Federation(3)
    canary = np.array([CANARY, CANARY])
    ask = everyone.coordinator.begin_round()
    party = everyone.parties["p0"]
    party.mask(ask, [canary], (64,))
    for wrong in (
        lambda: party.mask(ask, [canary + 1], (64,)),
        lambda: party.mask(ask, [canary.astype(float)], (64,)),
        lambda: party.mask(ask, [canary], (8,)),
        lambda: party.mask(replace(ask, job="spy"), [canary], (64,)),
        lambda: party.mask(replace(ask, round_number=9, history=(0,) * 8), [canary], (64,)),
    ):
        with pytest.raises((ProtocolError, SettingError)) as error:
            wrong()
        assert str(CANARY)[:6] not in f"{error.value} {error.value.public} {error.value.local}"


def seal_wrong(keys, victims):
    """Return what a party publishes that seals other secrets than it shares with the victims."""
    right = {number: dict(held.pair_with) for number, held in keys._rounds.items()}
    for held in keys._rounds.values():
        held.pair_with |= dict.fromkeys(victims, bytes(32))
    reply = keys._dealt()
    for number, held in keys._rounds.items():
        held.pair_with = right[number]
    return reply


@pytest.mark.parametrize("victims", [("p0", "p1", "p2", "p3"), ("p2",)])
def test_a_party_that_sealed_wrong_secrets_before_it_left_is_named(monkeypatch, victims):
    """Without the checks the sum over the others would be noise, and nobody would notice."""
    dealt = EpochKeys._dealt

    def deal(keys):
        if keys._name != "p4":
            return dealt(keys)
        monkeypatch.setattr(EpochKeys, "_dealt", dealt)
        return seal_wrong(keys, victims)

    monkeypatch.setattr(EpochKeys, "_dealt", deal)
    everyone = Federation(5)
    everyone.masked(everyone.zeros())
    assert not everyone.opened()[0].any()  # what it sealed does not matter while it is there
    everyone.masked(everyone.zeros(), everyone.names[:4])
    wrong = rf"Parties 'p4' and '{victims[0]}' name different secrets .* round 2; one of them is"
    with pytest.raises(ProtocolError, match=wrong):
        everyone.opened()


def test_checks_of_pair_secrets_are_for_the_dropped_parties_only_and_complete():
    everyone = Federation(5)
    everyone.masked(everyone.zeros())
    ask = everyone.coordinator.end_vectors()
    assert everyone.parties["p0"].unmask(ask).pair_checks == b""
    everyone.masked(everyone.zeros(), everyone.names[:3])
    ask = everyone.coordinator.end_vectors()
    reply = everyone.parties["p0"].unmask(ask)
    assert len(reply.pair_checks) == 2 * 32
    for bad in (b"", reply.pair_checks[:-1], reply.pair_checks + b"x"):
        with pytest.raises(ProtocolError, match="truncated or padded: it must have 1 parts of 64"):
            everyone.coordinator.add_shares(replace(reply, pair_checks=bad))


def test_one_stolen_key_and_the_recorded_letters_open_all_secrets_of_its_party():
    """As `masking` says under what is not covered: so a key is for one job, and is not stored."""
    everyone = Federation(3)
    (ask, letters) = everyone.coordinator._book.ask, everyone.coordinator._book._replies["p0"]
    secrets = agree_with_all(everyone.pairs["p0"], everyone.settings.roster)
    thief = EpochKeys(everyone.settings, "p0", secrets, ask)
    sent = zip(everyone.names, letters.letters, strict=True)
    opened = [thief._letters(name).open(letter, thief._about("p0", name)) for name, letter in sent]
    seed = recover_secret(
        weights((0, 1)), [content[:SHARE_BYTES] for content in opened[:2] if content]
    )
    assert seed == everyone.parties["p0"]._keys._rounds[1].self_seed
