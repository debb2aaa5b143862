"""A coordinator that cheats in the matching of ids, and a leading party that does."""

from typing import Any

import numpy as np
import pytest

from spinney.errors import PolicyError, ProtocolError
from spinney.privacy.intersection import PsiClient, PsiServer
from spinney.privacy.keys import KeyPair
from spinney.privacy.ledger import Ledger
from spinney.privacy.matching import Ids, open_key, seal_key
from spinney.protocols.columns.matching import match
from spinney.protocols.columns.matching_messages import (
    CommonAsk,
    MeetAsk,
    RequestAsk,
    RespondAsk,
    RespondReply,
    SecretAsk,
    SharedAsk,
    TagsAsk,
    TakeAsk,
)
from spinney.protocols.columns.matching_party import MatchingLimit, MatchingParty
from spinney.protocols.columns.notebook import Notebook
from spinney.protocols.columns.seat import UNSIGNED, Seat, seats_in_one_process
from spinney.transport import codec
from spinney.transport.in_process import InProcess

PEOPLE = [f"person {number}" for number in range(300)]
GUESSES = [f"person {number}" for number in range(2000)]
NAMES = ("bank", "shop")
not_signed = "sent for party '{}' is not signed by that party for this run"


def parties(way="psi", names=NAMES, **how: Any) -> dict[str, MatchingParty]:
    seats = seats_in_one_process(names, "bank")
    return {name: MatchingParty(PEOPLE, seats[name], way, **how) for name in names}


def forging(name):
    """Return a seat of the coordinator's own making, under a party's name."""
    return seats_in_one_process(NAMES, "bank")[name]


def said(party, ask):
    with pytest.raises((ProtocolError, PolicyError)) as caught:
        party.answer(ask)
    return str(caught.value)


# --- keys ----------------------------------------------------------------------------------------


def signatures_for(name, party, public):
    """Return all that a coordinator can put beside a key of its own."""
    mine = forging(name).sign("matching key", public)
    theirs = party.answer(MeetAsk(name)).signed
    return (UNSIGNED, mine, theirs)


def test_the_leading_party_writes_to_no_key_but_the_partys_own():
    """Before: the letter with the key came to the coordinator, and 3,000 of 3,000 ids with it."""
    sides, own = parties("keyed_hash"), KeyPair.fresh()
    for signed in signatures_for("shop", sides["shop"], own.public):
        some = () if signed is UNSIGNED else (signed,)
        ask = SecretAsk(("shop",), (own.public,), some or UNSIGNED)
        assert not_signed.format("shop") in said(sides["bank"], ask)
    assert "no matching key yet" in said(sides["bank"], TagsAsk())


def test_a_party_takes_no_key_but_the_leading_partys():
    """Before: tags under a key of the coordinator's, and so every id that it could think of."""
    sides, own = parties("keyed_hash"), KeyPair.fresh()
    public = sides["shop"].answer(MeetAsk("shop")).public_key
    letter = seal_key(b"k" * 32, own, public, ("bank", "shop"))
    for signed in signatures_for("bank", sides["bank"], own.public):
        ask = TakeAsk("bank", own.public, letter, signed)
        assert not_signed.format("bank") in said(sides["shop"], ask)
    assert "no matching key yet" in said(sides["shop"], TagsAsk())


def test_keys_of_one_run_are_of_no_use_in_another():
    sides, others = parties("keyed_hash"), parties("keyed_hash")
    met = others["shop"].answer(MeetAsk("shop"))
    ask = SecretAsk(("shop",), (met.public_key,), (met.signed,))
    assert not_signed.format("shop") in said(sides["bank"], ask)


def test_a_key_signed_for_another_role_or_roster_is_refused():
    """The same party, key and run; another leading party, or one party more."""
    sides = parties("keyed_hash")
    seat: Seat = sides["shop"]._seat
    public = sides["shop"].answer(MeetAsk("shop")).public_key
    for other in (
        Seat("shop", seat.run, seat.parties, "shop", seat.identity),
        Seat("shop", seat.run, (*seat.parties, "moon"), "bank", seat.identity),
    ):
        ask = SecretAsk(("shop",), (public,), (other.sign("matching key", public),))
        assert not_signed.format("shop") in said(sides["bank"], ask)


@pytest.mark.parametrize("names", [(), ("moon",), ("shop", "shop"), ("shop", "moon"), ("bank",)])
def test_the_leading_party_writes_to_the_parties_of_its_job(names):
    sides = parties("keyed_hash")
    met = sides["shop"].answer(MeetAsk("shop"))
    ask = SecretAsk(names, (met.public_key,) * len(names), (met.signed,) * len(names))
    assert "does not name the other parties of this run" in said(sides["bank"], ask)


def test_only_the_leading_party_leads():
    sides = parties()
    met = sides["bank"].answer(MeetAsk("bank"))
    for ask in (
        SecretAsk(("bank",), (met.public_key,), (met.signed,)),
        RequestAsk(size_only=False),
        SharedAsk((), size_only=False),
    ):
        assert "Only the leading party answers this" in said(sides["shop"], ask)
    assert "is for another party" in said(sides["shop"], MeetAsk("bank"))


def test_a_key_is_taken_once():
    """A leading party that colludes cannot let one party tag its ids under two keys."""
    sides = parties("keyed_hash")
    match(InProcess(sides), "keyed_hash", lead="bank")
    lead = sides["bank"]
    met = sides["shop"].answer(MeetAsk("shop"))
    letter = seal_key(b"k" * 32, lead._pair, met.public_key, ("bank", "shop"))
    ask = TakeAsk("bank", lead._pair.public, letter, lead.answer(MeetAsk("bank")).signed)
    assert "already has another matching key" in said(sides["shop"], ask)


# --- requests ------------------------------------------------------------------------------------


def request_of(seat, ids):
    """Return a request, signed by a seat, and who can read its answer."""
    client = PsiClient(ids)
    request = client.request()
    signed = seat.sign("matching request", 0, len(ids), request)
    return RespondAsk(len(ids), request, False, signed), client


def test_guesses_of_the_coordinator_are_not_answered():
    """Before: 20,000 guesses were answered, and all 3,000 members found."""
    sides = parties()
    for seat in (forging("bank"), forging("shop")):
        ask, _ = request_of(seat, GUESSES)
        assert not_signed.format("bank") in said(sides["shop"], ask)
    unsigned = RespondAsk(ask.n_ids, ask.request, False)
    assert not_signed.format("bank") in said(sides["shop"], unsigned)


def test_a_run_has_one_request(tmp_path):
    """Even for a leading party that asks as it likes; and after a restart."""
    sides = parties(notebook=Notebook(tmp_path))
    seat = sides["bank"]._seat
    first, client = request_of(seat, PEOPLE[:200])
    reply = sides["shop"].answer(first)
    assert client.common(reply.setup, reply.response).size == 200
    restarted = MatchingParty(PEOPLE, sides["shop"]._seat, "psi", notebook=Notebook(tmp_path))
    for shop in (sides["shop"], restarted):
        assert codec.encode(shop.answer(first)) == codec.encode(reply)
        second, _ = request_of(seat, PEOPLE[200:])
        assert "has answered another request for common ids in this run" in said(shop, second)


def test_a_run_that_begins_anew_asks_and_answers_the_same(tmp_path):
    def sides():
        return {
            name: MatchingParty(PEOPLE, seat, "psi", notebook=Notebook(tmp_path / name))
            for name, seat in seats.items()
        }

    seats = seats_in_one_process(NAMES, "bank")
    asked: list[Any] = []

    class Noting:
        def __init__(self, party):
            self.party = party

        def answer(self, ask):
            reply = self.party.answer(ask)
            asked.extend([ask.request, reply] if isinstance(ask, RespondAsk) else [])
            return reply

    for _ in range(2):
        found = {name: Noting(party) for name, party in sides().items()}
        assert match(InProcess(found), "psi", lead="bank") == len(PEOPLE)
    assert asked[0] == asked[2]
    assert codec.encode(asked[1]) == codec.encode(asked[3])


def test_a_request_has_a_size_that_the_party_allows():
    ledger = Ledger.in_memory("shop")
    for most, n_ids in ((None, 2000), (100, 101), (0, 1)):
        sides = parties(limit=MatchingLimit(most, ledger))
        sides["shop"]._ids = Ids(PEOPLE[:100])
        ask, _ = request_of(sides["bank"]._seat, GUESSES[:n_ids])
        if n_ids == 2000:
            words = "asks which of 2000 ids are here; this party answers for at most 1000"
        else:
            words = f"answers for at most {most} (rule 'max_match_ids'). Nothing was released."
        assert words in said(sides["shop"], ask)
    assert len(ledger.entries()) == 1  # that it was opened


def test_a_request_does_not_understate_its_size():
    sides = parties()
    seat, client = sides["bank"]._seat, PsiClient(GUESSES)
    request = client.request()
    ask = RespondAsk(10, request, False, seat.sign("matching request", 0, 10, request))
    assert "another number of ids than it says" in said(sides["shop"], ask)


def test_the_ledger_says_how_many_ids_were_asked_of_whom():
    ledger = Ledger.in_memory("shop")
    seats = seats_in_one_process(NAMES, "bank")
    sides = {
        "bank": MatchingParty(PEOPLE, seats["bank"], "psi"),
        "shop": MatchingParty(PEOPLE[:100], seats["shop"], "psi",
            limit=MatchingLimit(None, ledger)),
    }  # fmt: skip
    match(InProcess(sides), "psi", lead="bank")
    told: list[Any] = [
        entry.body for entry in ledger.entries() if type(entry.body).__name__ == "Disclosed"
    ]
    assert len(told) == 1
    assert told[0].disclosure.what == "to 'bank', which of its 300 ids are here"
    assert told[0].question.job == seats["shop"].run


# --- answers -------------------------------------------------------------------------------------


def test_answers_that_the_coordinator_made_are_not_used():
    """Before: its answer about one guessed id told, by the size, whether the id was there."""
    sides = parties()
    request = sides["bank"].answer(RequestAsk(size_only=False)).data
    server = PsiServer([PEOPLE[7]], reveal=True)
    setup, response = server.setup(), server.respond(request)
    mine = forging("shop").sign("matching answer", 0, request, setup, response)
    for signed, words in (
        (UNSIGNED, "does not name the other parties of this run"),
        (mine, not_signed.format("shop")),
    ):
        ask = SharedAsk((RespondReply(setup, response, signed),), size_only=False)
        assert words in said(sides["bank"], ask)


def test_a_run_asks_for_rows_or_for_their_number():
    sides = parties()
    sides["bank"].answer(RequestAsk(size_only=False))
    assert "already gave a different answer" in said(sides["bank"], RequestAsk(size_only=True))


def test_tags_are_sent_only_where_the_job_says_so():
    """Before: tags of all ids, also in a job that matches by private set intersection."""
    sides = parties("psi")
    match(InProcess(sides), "psi", lead="bank")
    assert "matches by 'psi' does not answer TagsAsk" in said(sides["shop"], TagsAsk())
    sides = parties("keyed_hash")
    ask, _ = request_of(sides["bank"]._seat, PEOPLE)
    assert "matches by 'keyed_hash' does not answer RespondAsk" in said(sides["shop"], ask)


# --- the common rows -----------------------------------------------------------------------------


class Splitting(InProcess):
    """A coordinator that gives every party common rows of its own."""

    def ask(self, ask, *, to=None, quorum=None):
        if isinstance(ask, CommonAsk) and to != ("bank",):
            ask = CommonAsk(ask.tags[:5], ask.signed)
        return super().ask(ask, to=to, quorum=quorum)


@pytest.mark.parametrize("way", ["psi", "keyed_hash"])
def test_all_parties_have_the_common_rows_that_the_leading_party_signed(way):
    """Before: each party took what it was given."""
    sides = parties(way)
    with pytest.raises(ProtocolError, match="list of common rows sent for party 'bank' is not"):
        match(Splitting(sides), way, lead="bank")
    with pytest.raises(ProtocolError, match="have not been matched"):
        _ = sides["shop"].rows


def test_the_leading_party_signs_the_rows_that_it_found():
    sides = parties()
    match(InProcess(sides), "psi", lead="bank")
    lead = sides["bank"]
    few = lead._ids.tags(lead._known_key())[:1]
    assert "already received different common rows" in said(lead, CommonAsk(few))
    other = parties()["bank"]
    other._secret("key", lead._known_key())
    assert "has not found the common rows yet" in said(other, CommonAsk(few))


def test_matching_works_as_it_did():
    """The same code, with nobody cheating."""
    for way in ("psi", "keyed_hash"):
        sides = parties(way, ("bank", "shop", "city"))
        assert match(InProcess(sides, through_codec=True), way, lead="bank") == len(PEOPLE)
        assert np.array_equal(sides["bank"].rows, sides["city"].rows)
    letter = seal_key(b"key", KeyPair.fresh(), KeyPair.fresh().public, ("bank", "shop"))
    with pytest.raises(ProtocolError, match="cannot be opened"):
        open_key(letter, KeyPair.fresh(), KeyPair.fresh().public, ("bank", "shop"))
