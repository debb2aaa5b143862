"""The channel between organisations without its engine: resident parties behind plain bytes."""

import threading
import time
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from spinney.errors import BudgetError, PartyLostError, ProtocolError, StorageError
from spinney.transport import codec
from spinney.transport.channel import Ask
from spinney.transport.journal import Journal, Journaled
from spinney.transport.remote.channel import Limits, RemoteChannel
from spinney.transport.remote.resident import Resident
from spinney.transport.remote.wire import WORKING, Answer, Envelope, error_of, refusal


@dataclass(frozen=True)
class CountReply:
    counts: np.ndarray[Any, np.dtype[np.int64]]

    def vectors(self):
        return (self.counts,)

    @classmethod
    def of_vectors(cls, vectors):
        return cls(vectors[0])


@dataclass(frozen=True)
class CountAsk(Ask[CountReply]):
    number: int
    reveals: ClassVar[str] = "counts"
    reply_type: ClassVar[type[Any]] = CountReply


class Counting:
    """A party that counts how often it was asked."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked = 0
        self.error: Exception | None = None
        self.slow: threading.Event | None = None

    def answer(self, ask):
        self.asked += 1
        if self.slow is not None:
            assert self.slow.wait(300)
        if self.error is not None:
            raise self.error
        return CountReply(np.array([self.number, ask.number], np.int64))


class Wire:
    """Carries bytes to residents; `cut` names parties whose messages or answers get lost."""

    def __init__(self, parties, attempt=1, hold=0.01):
        known = {"CountAsk": CountAsk}
        self.residents = {
            name: Resident(party, run="run", attempt=attempt, known=known, hold=hold)
            for name, party in parties.items()
        }
        self.cut: set[str] = set()
        self.lose_answer: dict[str, int] = {}
        self.sent: list[bytes] = []

    def __call__(self, targets, data):
        self.sent.append(data)
        came = {}
        for name in targets:
            if name in self.cut:
                continue
            answer = self.residents[name].answer(data)
            if self.lose_answer.get(name, 0):
                self.lose_answer[name] -= 1
                continue
            came[name] = answer
        return came


@pytest.fixture
def parties():
    return {name: Counting(number) for number, name in enumerate(("east", "west", "north"), 1)}


def channel_over(wire, names=("east", "west", "north"), **changes):
    how = {"run": "run", "attempt": 1, "parties": names, "present": names, "least": len(names)}
    how |= {"limits": Limits(silence=0.05), **changes}
    return RemoteChannel(wire, **how)


def test_ask_shows_each_reply_and_sum_only_the_sum(parties):
    channel = channel_over(Wire(parties))
    replies = channel.ask(CountAsk(7))
    assert {name: reply.counts.tolist() for name, reply in replies.items()} == {
        "east": [1, 7],
        "west": [2, 7],
        "north": [3, 7],
    }
    assert channel.sum(CountAsk(1)).counts.tolist() == [6, 3]
    assert [round_.verb for round_ in channel.rounds] == ["ask", "sum"]
    assert channel.rounds[0].answered == ("east", "west", "north")
    assert all(size > 0 for size in channel.rounds[0].bytes_up.values())


def test_a_lost_answer_is_asked_for_again_and_the_party_works_once(parties):
    wire = Wire(parties)
    wire.lose_answer["west"] = 2
    assert channel_over(wire, limits=Limits(silence=60.0)).sum(CountAsk(1)).counts.tolist() == [
        6,
        3,
    ]
    assert parties["west"].asked == 1


def test_a_slow_party_is_waited_for(parties):
    wire = Wire(parties)
    parties["west"].slow = threading.Event()
    timer = threading.Timer(0.3, parties["west"].slow.set)
    timer.start()
    assert channel_over(wire).sum(CountAsk(1)).counts.tolist() == [6, 3]
    assert parties["west"].asked == 1


def test_a_party_that_works_for_ever_is_lost_in_the_end(parties):
    wire = Wire(parties)
    parties["west"].slow = threading.Event()
    with pytest.raises(PartyLostError, match="Only 2 of 3 parties answered") as lost:
        channel_over(wire, limits=Limits(silence=60.0, working=0.1)).sum(CountAsk(1))
    assert lost.value.missing == ("west",)
    parties["west"].slow.set()


@dataclass(frozen=True)
class LongAsk(CountAsk):
    body: bytes = b""


def test_a_large_question_may_be_long_on_its_way(parties):
    """At 4 MB per second in total, 2 MB to each of three parties may take 1.5 seconds."""
    wire = Wire(parties)
    for resident in wire.residents.values():
        resident._known["LongAsk"] = LongAsk
    sent = []

    def late(targets, data):
        time.sleep(0.2)  # longer than the allowed silence
        sent.append(len(data))
        return wire(targets, data) if len(sent) > 2 else {}

    assert channel_over(late).sum(LongAsk(1, body=bytes(1 << 21))).counts.tolist() == [6, 3]
    sent.clear()
    with pytest.raises(PartyLostError):  # which a short one may not
        channel_over(late).sum(CountAsk(1))


def test_a_question_that_nobody_would_unpack_is_not_sent(parties, monkeypatch):
    def too_large(*_, **__):
        raise StorageError("A CountAsk would unpack to more numbers than it may hold.")

    wire = Wire(parties)
    monkeypatch.setattr("spinney.transport.codec.encode", too_large)
    with pytest.raises(ProtocolError, match=r"The job is too large .* fewer trees, less depth"):
        channel_over(wire).sum(CountAsk(1))
    assert not wire.sent


def test_a_party_that_is_stopped_refuses_nothing_so_that_the_run_can_go_on(parties):
    wire = Wire(parties)
    wire.residents["west"].close()
    asked = Envelope("run", 1, 1, "CountAsk", codec.encode(CountAsk(1)))
    answer = codec.decode(wire.residents["west"].answer(codec.encode(asked)), Answer)
    assert answer.state == WORKING
    assert parties["west"].asked == 0


def test_a_silent_party_is_lost_by_name(parties):
    wire = Wire(parties)
    wire.cut.add("west")
    with pytest.raises(PartyLostError, match=r"2 of 3 parties.*Missing: west\.") as lost:
        channel_over(wire).sum(CountAsk(1))
    assert lost.value.missing == ("west",)


def test_a_quorum_goes_on_without_it(parties):
    wire = Wire(parties)
    wire.cut.add("west")
    channel = channel_over(wire, least=2)
    assert channel.sum(CountAsk(1)).counts.tolist() == [4, 2]
    assert channel.rounds[-1].answered == ("east", "north")
    absent = channel_over(Wire(parties), least=2, present=("east", "north"))
    assert absent.sum(CountAsk(2)).counts.tolist() == [4, 4]
    with pytest.raises(PartyLostError):
        channel_over(Wire(parties), least=3, present=("east", "north")).sum(CountAsk(2))


def test_a_refusal_crosses_with_its_public_part_only(parties):
    parties["west"].error = BudgetError("Charge refused.", local="row 17 of /data/secret.csv")
    with pytest.raises(BudgetError, match=r"^Party 'west': Charge refused\.$") as refused:
        channel_over(Wire(parties)).ask(CountAsk(1))
    assert refused.value.party == "west"


def test_an_unforeseen_error_crosses_without_its_text(parties):
    parties["west"].error = KeyError("canary-4711")
    wire = Wire(parties)
    with pytest.raises(Exception, match="The party failed; see its own log") as failed:
        channel_over(wire).ask(CountAsk(1))
    assert "canary" not in str(failed.value)


def envelope(number=1, kind="CountAsk", **changes):
    question = Envelope("run", 1, number, kind, codec.encode(CountAsk(number)))
    return codec.encode(replace(question, **changes))


def answered(resident, data):
    found = codec.decode(resident.answer(data), Answer)
    return found.state, found.text


def test_a_party_refuses_what_is_replayed_reworded_or_of_another_job(parties):
    resident = Wire(parties, hold=30).residents["east"]
    assert answered(resident, envelope(1))[0] == "reply"
    assert answered(resident, envelope(2))[0] == "reply"
    assert answered(resident, envelope(2))[0] == "reply"  # the same question again
    assert parties["east"].asked == 2
    for data, words in (
        (envelope(1), "Question 1 is replayed: question 2 has been answered since"),
        (envelope(2, body=codec.encode(CountAsk(9))), "was asked before with different content"),
        (envelope(3, run="another"), "belongs to a job that this party has not joined"),
        (envelope(3, attempt=2), "belongs to a job that this party has not joined"),
        (envelope(3, kind="RowsAsk"), "of a kind that this job does not ask"),
        (b"not a message", "not a Spinney message"),
        (12, "not a Spinney message"),
    ):
        state, text = answered(resident, data)
        assert (state, words in text) == ("refused", True), text


def test_the_next_question_waits_for_the_last(parties):
    parties["east"].slow = threading.Event()
    resident = Wire(parties).residents["east"]
    assert answered(resident, envelope(1))[0] == "working"
    assert "not answered yet" in answered(resident, envelope(2))[1]
    parties["east"].slow.set()


def test_an_answer_to_another_question_is_not_used(parties):
    class Stray(Wire):
        def __call__(self, targets, data):
            came = super().__call__(targets, data)
            stray = replace(codec.decode(came["west"], Answer), number=99)
            return {**came, "west": codec.encode(stray)}

    with pytest.raises(ProtocolError, match="Party 'west': Its answer belongs to another question"):
        channel_over(Stray(parties, hold=30)).ask(CountAsk(1))


def test_an_answer_that_is_too_long_is_refused(parties):
    limits = Limits(silence=0.05, message_bytes=64)
    with pytest.raises(StorageError, match="may have at most 64 bytes"):
        channel_over(Wire(parties, hold=30), limits=limits).ask(CountAsk(1))


def test_an_error_of_unknown_kind_is_an_internal_one():
    question = Envelope("run", 1, 1, "CountAsk", b"")
    answer = replace(refusal(question, ValueError("x")), kind="os.system")
    assert type(error_of(answer, "west")).__name__ == "InternalError"


def finished(channel, steps):
    return [channel.sum(CountAsk(step)).counts.tolist() for step in range(steps)]


def test_finished_rounds_are_not_asked_again_after_a_crash(parties, tmp_path):
    first = Journaled(channel_over(Wire(parties)), Journal(tmp_path / "rounds"))
    assert finished(first, 3) == [[6, 0], [6, 3], [6, 6]]
    assert first.ask(CountAsk(5)).keys() == {"east", "west", "north"}
    before = parties["east"].asked
    again = Journaled(channel_over(Wire(parties, 1)), Journal(tmp_path / "rounds"))
    assert finished(again, 3) == [[6, 0], [6, 3], [6, 6]]
    assert [r.counts.tolist() for r in again.ask(CountAsk(5)).values()] == [[1, 5], [2, 5], [3, 5]]
    assert parties["east"].asked == before
    assert [round_.number for round_ in again.rounds] == [1, 2, 3, 4]
    assert again.sum(CountAsk(9)).counts.tolist() == [6, 27]
    assert parties["east"].asked == before + 1


def test_a_journal_of_another_job_is_refused(parties, tmp_path):
    finished(Journaled(channel_over(Wire(parties)), Journal(tmp_path)), 1)
    with pytest.raises(
        ProtocolError, match="Round 1 of this run asked a different question before"
    ):
        Journaled(channel_over(Wire(parties)), Journal(tmp_path)).sum(CountAsk(4))


def test_a_round_cut_short_by_a_crash_is_asked_again(parties, tmp_path):
    finished(Journaled(channel_over(Wire(parties)), Journal(tmp_path)), 1)
    (tmp_path / "000002.part").write_bytes(b"half")
    again = Journaled(channel_over(Wire(parties)), Journal(tmp_path))
    assert finished(again, 2) == [[6, 0], [6, 3]]
    assert len(Journal(tmp_path)) == 2


def test_a_full_disk_is_told(parties, tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match=r"No space left on device\. Make room and resume"):
        finished(Journaled(channel_over(Wire(parties)), Journal(tmp_path)), 1)
    assert len(Journal(tmp_path)) == 0


def test_a_round_that_cannot_be_read_is_told_too(parties, tmp_path):
    (tmp_path / "000001.round").mkdir()
    with pytest.raises(StorageError, match=r"cannot read round 1: Is a directory\. Mend '.*000001"):
        finished(Journaled(channel_over(Wire(parties)), Journal(tmp_path)), 1)


def test_a_cleared_journal_is_gone(parties, tmp_path):
    journal = Journal(tmp_path / "rounds")
    finished(Journaled(channel_over(Wire(parties)), journal), 2)
    journal.clear()
    assert not (tmp_path / "rounds").exists()
