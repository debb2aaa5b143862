"""A party's masks in deployed jobs: keys that are signed, one roster, every sum opened once."""

import shutil

import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Authority,
    Sites,
    agreed_job,
    clinics_in,
)
from spinney.deployment.identity import KitIdentity
from spinney.deployment.party.config import load_party
from spinney.deployment.party.tables import schema_for
from spinney.errors import ProtocolError
from spinney.privacy.keys import KeysAsk, SharesAsk
from spinney.privacy.masking import MaskAsk, UnmaskAsk
from spinney.protocols.rows.setup import FactsAsk, SchemaAsk
from spinney.protocols.secure_sums.channel import EpochAsk, LettersAsk, MaskedAsk, RevealAsk
from spinney.protocols.secure_sums.roster import (
    KeyAsk,
    RosterAsk,
    exchange_keys,
)
from spinney.protocols.verified.channel import VerifiedSums
from spinney.protocols.verified.messages import StepAsk
from spinney.transport.carried import Carried
from spinney.transport.remote.channel import RemoteChannel

FOUR = (*CLINICS, "harbour")


@pytest.fixture
def clinics(tmp_path):
    """Three parties with kits and tables."""
    return clinics_in(tmp_path)


@pytest.fixture
def four(tmp_path):
    """Four parties, of which a sum may lack one."""
    return clinics_in(tmp_path, FOUR)


def opened_by_four(four, **changes):
    """Return a masked channel to four parties that may lose one, and its sites."""
    masked = agreed_job(four, "quorum = 3", FOUR, secure_sum="true", honest=3, **changes)
    sites = Sites(four, masked)
    return sites, sites.keyed(honest=3, min_survivors=3)


def facts_of(four, sites):
    return FactsAsk(_digest(four, sites.agreed), with_leading=True)


FEWER = UnmaskAsk("run-1/1", 1, 1, ("harbour", "lakeside", "north"), ("st-mary",))


def test_a_sum_is_opened_for_one_set_of_parties_only(four):
    sites, channel = opened_by_four(four)
    verified = VerifiedSums(channel)
    verified.ask(SchemaAsk())
    verified.sum(facts_of(four, sites))
    with pytest.raises(ProtocolError, match="already opened for another set of parties"):
        channel._inner.ask(RevealAsk(FEWER), to=("north",))
    sites.close()


def test_a_step_is_opened_once_in_whatever_words_it_is_asked_again(four):
    """The attack that read one party's histogram: the same sum, a little different, over fewer."""
    sites, channel = opened_by_four(four)
    verified = VerifiedSums(channel)
    verified.ask(SchemaAsk())
    verified.sum(facts_of(four, sites))
    wire = channel._inner
    before = verified.opened
    again = StepAsk(2, "sum", ()).derived(facts_of(four, sites))
    others = ("harbour", "lakeside", "north")
    mask = channel._coordinator.begin_round()
    for name in others:
        wire.ask(MaskedAsk(mask, "StepAsk", Carried(again)), to=(name,))
    fewer = UnmaskAsk("run-1/1", 1, 2, others, ("st-mary",))
    with pytest.raises(ProtocolError, match="already opened for another set of parties"):
        wire.ask(RevealAsk(fewer), to=("north",))
    assert before[0].number == 2
    sites.close()


def test_a_question_that_was_not_answered_opens_nothing_and_hides_no_other(four):
    sites, channel = opened_by_four(four)
    verified = VerifiedSums(channel)
    verified.ask(SchemaAsk())
    verified.sum(facts_of(four, sites))
    wire = channel._inner
    # Round 1 again, about another step: it is refused, and round 1 stays what it was.
    first = MaskAsk("run-1/1", 1, 1, ())
    other = StepAsk(3, "sum", verified.opened)
    with pytest.raises(ProtocolError, match="Round 1 of the masks was about another question"):
        wire.ask(MaskedAsk(first, "StepAsk", Carried(other)), to=("north",))
    with pytest.raises(ProtocolError, match="already opened for another set of parties"):
        wire.ask(RevealAsk(FEWER), to=("north",))
    # A question that is refused leaves its round empty.
    wrong = StepAsk(7, "sum", verified.opened)
    second = MaskAsk("run-1/1", 1, 2, (0b1111,))
    with pytest.raises(ProtocolError, match="Step 7 does not follow"):
        wire.ask(MaskedAsk(second, "StepAsk", Carried(wrong)), to=("north",))
    with pytest.raises(ProtocolError, match="has no reply in round 2"):
        wire.ask(RevealAsk(UnmaskAsk("run-1/1", 1, 2, tuple(sorted(FOUR)), ())), to=("north",))
    sites.close()


def test_a_party_takes_one_roster(clinics):
    masked = agreed_job(clinics, secure_sum="true")
    rosters = []

    class Listening(RemoteChannel):
        def ask(self, ask, **how):
            if isinstance(ask, RosterAsk):
                rosters.append(ask)
            return super().ask(ask, **how)

    wire = Sites(clinics, masked).channel(Listening)
    exchange_keys(wire, "run-1/1", CLINICS)
    (roster,) = rosters
    wire.ask(roster)  # the same once more changes nothing
    pair = ("lakeside", "north")
    keys = tuple(roster.keys[roster.names.index(name)] for name in pair)
    fewer = RosterAsk("run-1/1", pair, keys, 1, 2, 2)
    with pytest.raises(ProtocolError, match="already accepted another roster of keys in this"):
        wire.ask(fewer, to=("north",))


HEAD = ("run-1/1", 1)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (EpochAsk(KeysAsk(*HEAD, 1, 4)), "need all parties, whose keys are on the roster"),
        (LettersAsk(CLINICS, (SharesAsk(*HEAD, CLINICS, (b"",) * 3),) * 3), "keys are on the ros"),
        (LettersAsk(CLINICS, ()), "letters must be for each party once"),
        (LettersAsk(("north",), (SharesAsk(*HEAD, (), ()),)), "letters must be for each party"),
        (RevealAsk(UnmaskAsk(*HEAD, 1, CLINICS, ())), "so there is nothing to unmask"),
        (RevealAsk(UnmaskAsk(*HEAD, 1, CLINICS[:2], CLINICS[2:])), "there is nothing to unmask"),
        (MaskAsk(*HEAD, 1, ()), "a round has no epoch, and no lists of parties"),
        (MaskAsk("run-1/1", 0, 2, (7,)), "a round has no epoch, and no lists of parties"),
        (MaskAsk("run-1/1", 0, 0, ()), "Round 0 is over"),
        (MaskAsk("run-0/1", 0, 1, ()), "A message for job 'run-0/1'"),
    ],
)
def test_a_job_that_needs_all_its_parties_refuses_what_belongs_to_others(clinics, ask, words):
    sites = Sites(clinics, agreed_job(clinics, secure_sum="true"))
    channel = sites.keyed()
    verified = VerifiedSums(channel)
    verified.ask(SchemaAsk())
    if isinstance(ask, MaskAsk):
        question = StepAsk(2, "sum", verified.opened).derived(facts_of(clinics, sites))
        ask = MaskedAsk(ask, "StepAsk", Carried(question))
    with pytest.raises(ProtocolError, match=words):
        channel._inner.ask(ask, to=("st-mary",))
    verified.sum(facts_of(clinics, sites))  # nothing has changed
    sites.close()


def test_a_threshold_that_two_lists_could_reach_is_refused(four):
    masked = agreed_job(four, "quorum = 2", FOUR, secure_sum="true")  # two may collude
    channel = Sites(four, masked).channel()
    with pytest.raises(ProtocolError, match=r"threshold=3 .* opened for two lists .* above 3"):
        exchange_keys(channel, "run-1/1", FOUR, honest=2, min_survivors=3)


def test_a_roster_that_relies_on_more_honest_parties_is_refused(four):
    masked = agreed_job(four, "quorum = 2", FOUR, secure_sum="true")
    channel = Sites(four, masked).channel()
    with pytest.raises(
        ProtocolError, match="relies on 3 honest parties; this party relies on at most 2"
    ):
        exchange_keys(channel, "run-1/1", FOUR, honest=3)


def _digest(folder, agreed):
    return schema_for(load_party(folder / "north" / "party.toml"), agreed).digest()


def test_masked_jobs_answer_no_summand_in_the_open(clinics):
    masked = agreed_job(clinics, secure_sum="true")
    sites = Sites(clinics, masked)
    channel = sites.keyed()
    VerifiedSums(channel).ask(SchemaAsk())
    step = StepAsk(2, "sum", ()).derived(facts_of(clinics, sites))
    with pytest.raises(ProtocolError, match="answers StepAsk only with masks"):
        channel._inner.ask(step)
    sites.close()


def test_a_mask_key_of_a_stranger_is_refused(clinics):
    shutil.rmtree(clinics / "north" / "kit")
    Authority(2).kit(clinics / "north" / "kit", "north")  # the right name, another authority
    masked = agreed_job(clinics, secure_sum="true")
    with pytest.raises(ProtocolError, match="for party 'north' is not signed by that party"):
        exchange_keys(Sites(clinics, masked).channel(), "run-1/1", CLINICS)


def test_a_party_cannot_sign_for_another(clinics):
    north, lakeside = (KitIdentity(clinics / name / "kit") for name in ("north", "lakeside"))
    signature = north.sign(b"key")
    lakeside.check("north", north.certificate, signature, b"key")
    for name, data in (("st-mary", b"key"), ("north", b"other")):
        with pytest.raises(ProtocolError, match="not signed by that party"):
            lakeside.check(name, north.certificate, signature, data)


def test_an_expired_certificate_signs_nothing(tmp_path):
    authority = Authority()
    authority.kit(tmp_path / "a", "north", days=-1)
    authority.kit(tmp_path / "b", "lakeside")
    north, lakeside = KitIdentity(tmp_path / "a"), KitIdentity(tmp_path / "b")
    with pytest.raises(ProtocolError, match="not signed by that party"):
        lakeside.check("north", north.certificate, north.sign(b"key"), b"key")


def test_masks_of_another_attempt_are_refused(clinics):
    masked = agreed_job(clinics, secure_sum="true")
    with pytest.raises(ProtocolError, match="The masks are for a different job"):
        Sites(clinics, masked).channel().ask(KeyAsk("run-1/2"))
