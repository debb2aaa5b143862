"""Numbers that travel ahead: put together they are the same bytes, and there are no more."""

from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import pytest

from spinney.errors import ProtocolError, StorageError
from spinney.transport.channel import ToldBack
from spinney.transport.remote import ahead
from spinney.transport.remote.ahead import (
    PART,
    Added,
    Arrived,
    Divided,
    RunningSum,
    divided,
    frames_of,
    whole,
    with_running,
    with_span,
)
from spinney.transport.remote.frames import Ahead, Inquiry, Part, Said

WORDS = np.random.default_rng(3).integers(0, 2**64, 3 * PART // 8 + 5, dtype=np.uint64)
ANSWER = b"head" + WORDS.tobytes() + b"tail"


@dataclass
class Stream:
    """A party's connection that keeps what it is sent."""

    parts: bytearray = field(default_factory=bytearray)
    name: str = "north"
    promise: bytes = b"digest"
    is_open: bool = True
    got: bytearray = field(default_factory=bytearray)

    def send_ahead(self, data):
        self.got += data


def test_an_answer_in_parts_is_the_same_answer():
    *parts, last = frames_of(7, with_span(ANSWER, ToldBack(WORDS)))
    data = [one.data for one in parts if isinstance(one, Part)]
    assert len(data) == len(parts) == 4
    assert {one.number for one in (*parts, last)} == {7}
    assert max(map(len, data)) == PART
    assert {one.digest for one in parts if isinstance(one, Part)} == {sha256(ANSWER).digest()}
    assert last == Said(7, b"headtail", 4)
    assert whole(last.body, last.at, b"".join(data)) == ANSWER


@pytest.mark.parametrize(
    "numbers", [None, WORDS[: PART // 8 - 1], WORDS.view(np.uint32), WORDS + np.uint64(1)]
)
def test_an_answer_with_few_or_other_numbers_travels_whole(numbers):
    found = with_span(ANSWER, None if numbers is None else ToldBack(numbers))
    assert not isinstance(found, Divided)
    assert list(frames_of(1, found)) == [Said(1, ANSWER)]


def test_a_question_without_what_was_sent_ahead_is_put_together_again():
    question = b"before" + WORDS.tobytes() + b"after"
    for sent in (WORDS.tobytes(), WORDS[:100].tobytes()):  # all of the sum, or its beginning
        body, at = divided(question, sent)
        assert (len(body), at) == (len(question) - len(sent), 6)
        assert whole(body, at, sent) == question
    for other in (b"", b"something else"):
        assert divided(question, other) == (question, -1)


def test_what_should_have_come_ahead_must_have_come():
    with pytest.raises(StorageError, match="lacks what should have come ahead of it"):
        whole(b"body", 2, b"")
    with pytest.raises(StorageError, match="lacks what should have come ahead of it"):
        whole(b"body", 5, b"more")
    assert whole(b"body", -1, b"of another question") == b"body"


def arrived(number=3, sent=16):
    found = Arrived()
    found.asked(Inquiry(number, b"the question"))
    found.sent(Part(number, bytes(sent), b""))
    return found


def test_a_party_takes_as_much_of_a_sum_as_it_sent():
    party = arrived()
    party.take(Ahead(3, b"12345678"))
    party.take(Ahead(3, b"abcdefgh"))
    assert party.asked(Inquiry(4, b"<>", 1)) == Inquiry(4, b"<12345678abcdefgh>")
    with pytest.raises(StorageError):  # it is used once
        party.asked(Inquiry(5, b"<>", 1))


@pytest.mark.parametrize(
    "frame",
    [Ahead(3, bytes(17)), Ahead(3, b""), Ahead(2, b"x"), Ahead(4, b"x")],
    ids=["long", "nothing", "of the question before", "of the next question"],
)
def test_a_party_takes_no_more_of_a_sum_and_of_no_other_question(frame):
    with pytest.raises(StorageError, match="More of a sum came than this party sent parts for it"):
        arrived().take(frame)


def test_of_coded_numbers_a_party_takes_as_much_as_they_may_be_worth():
    """A sum takes more bits than its summands."""
    coded = ToldBack(np.frombuffer(WORDS.tobytes(), np.uint8), worth=4)
    answer = with_span(ANSWER, coded)
    assert isinstance(answer, Divided)
    assert (answer.span, answer.worth) == ((4, 4 + WORDS.nbytes), 4)
    party = arrived(sent=0)
    party.sent(Part(3, b"12", b""), answer.worth)
    party.take(Ahead(3, b"12345678"))
    with pytest.raises(StorageError, match="More of a sum came than this party sent parts for it"):
        party.take(Ahead(3, b"9"))


def test_a_party_takes_no_more_ahead_than_a_question_may_have(monkeypatch):
    """Before: 128 times what it sent, however much that is."""
    monkeypatch.setattr(ahead, "QUESTION_LIMIT", 9)
    party = arrived(sent=16)
    party.take(Ahead(3, b"12345678"))
    with pytest.raises(StorageError, match="More of a sum came than this party sent parts for it"):
        party.take(Ahead(3, b"90"))


class Counting:
    """Tells how many bytes have come, once it is asked."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def more(self, parts):
        self.seen.append([len(part) for part in parts])
        return b"" if len(self.seen) == 1 else b"told"


def test_a_question_says_how_the_sum_of_its_answers_is_told():
    running = Counting()
    question = with_running(b"question", running)
    assert question == b"question"
    assert not isinstance(with_running(b"question", None), Added)
    streams = [Stream(bytearray(8)), Stream()]
    total = RunningSum(b"digest", streams, question)
    total.go_on()
    assert not running.seen  # one has sent nothing yet
    streams[1].parts += b"more"
    total.go_on()
    total.require_kept("north", b"another digest")  # nothing was told yet
    total.go_on()
    assert running.seen == [[8, 4], [8, 4]]
    assert [bytes(stream.got) for stream in streams] == [b"told", b"told"]
    with pytest.raises(ProtocolError, match="otherwise after it saw a part of the sum"):
        total.require_kept("north", b"another digest")
    assert type(divided(question, b"")[0]) is bytes  # frames carry nothing else


def test_parts_of_a_question_that_is_over_let_nothing_in():
    party = arrived()
    party.asked(Inquiry(4, b"the next"))
    party.sent(Part(3, bytes(100), b""))
    with pytest.raises(StorageError):
        party.take(Ahead(4, b"x"))


def test_a_running_sum_is_sent_on_as_far_as_all_have_come():
    values = np.arange(12, dtype="<u8") + np.uint64(2**63)  # the sum of two goes round
    streams = [Stream(), Stream(), Stream()]
    total = RunningSum(b"question", streams)
    for stream, size in zip(streams, (96, 20, 41), strict=True):
        stream.parts += values.tobytes()[:size]
        total.go_on()
    assert [len(stream.got) for stream in streams] == [16, 16, 16]
    for stream in streams:
        stream.parts[:] = values.tobytes()
    total.go_on()
    total.go_on()
    for stream in streams:
        np.testing.assert_array_equal(np.frombuffer(stream.got, "<u8"), values * np.uint64(3))


def test_a_running_sum_ends_with_a_connection():
    streams = [Stream(bytearray(8)), Stream(bytearray(8))]
    total = RunningSum(b"question", streams)
    streams[1].is_open = False
    total.go_on()
    streams[1].is_open = True
    total.go_on()
    assert not any(stream.got for stream in streams)


@pytest.mark.parametrize("others", [[], [None]], ids=["alone", "one is away"])
def test_nothing_is_summed_of_one_party_alone(others):
    """It would be that party's own numbers; and somebody who is away has yet to be asked."""
    one = Stream(bytearray(800))
    RunningSum(b"question", [one, *others]).go_on()
    assert not one.got


def test_who_saw_some_of_a_sum_keeps_to_its_answer():
    """A connection that ends, and another answer on the next one, is no way around."""
    streams = [Stream(bytearray(8)), Stream(bytearray(8), "lakeside")]
    total = RunningSum(b"question", streams)
    total.require_kept("north", b"another digest")  # nothing went ahead yet
    total.go_on()
    total.require_kept("north", b"digest")
    for promise in (b"another digest", b""):  # in parts, or whole
        with pytest.raises(ProtocolError, match="otherwise after it saw a part of the sum") as why:
            total.require_kept("north", promise)
        assert why.value.party == "north"
