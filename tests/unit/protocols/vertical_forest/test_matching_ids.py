"""Matching: the same rows in the same order at all parties, and no id in any message."""

import hashlib

import numpy as np
import pytest

from spinney.errors import ProtocolError, SettingError, TableError
from spinney.privacy.keys import KeyPair
from spinney.privacy.matching import Ids, open_key, seal_key
from spinney.protocols.columns.matching import count_shared, match
from spinney.protocols.columns.matching_messages import CommonAsk, TagsAsk
from spinney.protocols.columns.matching_party import MatchingParty
from spinney.protocols.columns.seat import seats_in_one_process
from spinney.protocols.columns.settings import MATCHINGS
from spinney.transport import codec
from spinney.transport.in_process import InProcess

both = pytest.mark.parametrize("matching", MATCHINGS)

BANK = ["ann", "bob", "cem", "dee", "eva", "fay"]
SHOP = ["eva", "zoe", "bob", "ann", "max"]
CITY = ["max", "ann", "eva", "kim", "bob", "fay"]


def alone(ids):
    return MatchingParty(ids, seats_in_one_process(("bank",), "bank")["bank"], "keyed_hash")


class Overheard:
    """A party all of whose messages are noted."""

    def __init__(self, ids, seat, way, notes):
        self.party, self.notes = MatchingParty(ids, seat, way), notes

    def answer(self, ask):
        reply = self.party.answer(ask)
        self.notes += [codec.encode(ask), codec.encode(reply)]
        return reply


def matched(ids_of_party, matching, lead="bank", notes=None):
    seats = seats_in_one_process(tuple(ids_of_party), lead)
    sides = {
        name: Overheard(ids, seats[name], matching, notes if notes is not None else [])
        for name, ids in ids_of_party.items()
    }
    channel = InProcess(sides, through_codec=True)
    n = match(channel, matching, lead=lead)
    return n, {name: [ids_of_party[name][row] for row in side.party.rows]
               for name, side in sides.items()}  # fmt: skip


@both
def test_all_parties_hold_the_same_rows_in_the_same_order(matching):
    n, found = matched({"bank": BANK, "shop": SHOP, "city": CITY}, matching)
    assert n == 3
    assert found["bank"] == found["shop"] == found["city"]
    assert sorted(found["bank"]) == ["ann", "bob", "eva"]


@both
def test_the_order_is_a_secret_of_each_run(matching):
    ids = [f"person {number}" for number in range(30)]
    orders = {
        tuple(matched({"bank": ids, "shop": ids[::-1]}, matching)[1]["bank"]) for _ in range(2)
    }
    assert len(orders) == 2
    assert tuple(ids) not in orders


@both
def test_no_id_is_in_any_message(matching):
    ids = [f"canary-{number}" for number in range(8)]
    notes: list[bytes] = []
    matched({"bank": ids, "shop": ids[2:]}, matching, notes=notes)
    plain = [name.encode() for name in ids]
    makers = (hashlib.sha256, hashlib.md5, hashlib.sha1)
    digests = [make(name).digest() for name in plain for make in makers]
    for note in notes:
        assert not any(needle in note for needle in (*plain, *digests))


@both
def test_one_party_is_matched_with_itself(matching):
    assert matched({"bank": BANK}, matching)[0] == 6


@both
def test_whole_numbers_match_whatever_their_type(matching):
    n, _ = matched({"bank": np.array([3, 5, 7], np.int32), "shop": [5, 7, 9]}, matching)
    assert n == 2


def test_sizes_can_be_had_alone():
    seats = seats_in_one_process(("bank", "shop", "city"), "bank")
    parties = {name: MatchingParty(ids, seats[name], "psi") for name, ids in
               {"bank": BANK, "shop": SHOP, "city": CITY}.items()}  # fmt: skip
    sizes = count_shared(InProcess(parties, through_codec=True), lead="bank")
    assert sizes == {"shop": 3, "city": 4}
    with pytest.raises(ProtocolError, match="have not been matched"):
        _ = parties["bank"].rows


# --- refusals ------------------------------------------------------------------------------------


@both
def test_no_common_ids_are_refused(matching):
    with pytest.raises(TableError, match="have no row id in common"):
        matched({"bank": ["a"], "shop": ["b"]}, matching)


def test_repeated_ids_are_refused_without_being_shown():
    with pytest.raises(TableError, match="are in more than one row") as caught:
        alone(["ann", "bob", "ann"])
    assert "ann" not in caught.value.public
    assert "1 rows" not in caught.value.public


@pytest.mark.parametrize("ids", [["ann", None], [1.0, float("nan")]])
def test_rows_without_an_id_are_refused(ids):
    with pytest.raises(TableError, match="Some rows have no id"):
        alone(ids)


def test_mixed_ids_are_refused():
    with pytest.raises(TableError, match="be all text or all whole numbers"):
        alone(["ann", 7])


@both
def test_ids_of_different_types_are_refused(matching):
    with pytest.raises(TableError, match="text at party 'bank' and whole numbers at party 'shop'"):
        matched({"bank": ["1", "2"], "shop": [1, 2]}, matching)


def test_unknown_ways_of_matching_are_refused():
    with pytest.raises(SettingError, match="matching must be 'psi' or 'keyed_hash'; got 'md5'"):
        matched({"bank": BANK}, "md5")
    with pytest.raises(SettingError, match="'moon' is not one of the job's parties"):
        matched({"bank": BANK}, "psi", lead="moon")


def test_tags_need_a_key_and_tags_of_strangers_are_refused():
    party = alone(BANK)
    with pytest.raises(ProtocolError, match="no matching key yet"):
        party.answer(TagsAsk())
    party._secret("key", b"k" * 32)
    with pytest.raises(ProtocolError, match="Some matched rows are not rows of this party"):
        party.answer(CommonAsk(Ids(["stranger"]).tags(b"k" * 32)))


def test_a_letter_is_for_one_party_only():
    lead, shop, other = (KeyPair.fresh() for _ in range(3))
    letter = seal_key(b"secret", lead, shop.public, ("bank", "shop"))
    assert open_key(letter, shop, lead.public, ("bank", "shop")) == b"secret"
    for pair, names in ((other, ("bank", "shop")), (shop, ("bank", "city"))):
        with pytest.raises(ProtocolError, match="cannot be opened"):
            open_key(letter, pair, lead.public, names)


def test_the_key_of_tags_changes_them():
    ids = Ids(["ann"])
    assert not np.array_equal(ids.tags(b"1" * 32), ids.tags(b"2" * 32))
