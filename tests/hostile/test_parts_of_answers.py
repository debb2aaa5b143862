"""A party that sends its answer in parts otherwise than it should: at the coordinator's end."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from threading import Condition, Thread
from time import monotonic, sleep

import numpy as np
import pytest

from spinney.errors import ProtocolError
from spinney.transport.channel import ToldBack
from spinney.transport.remote.ahead import PART, frames_of, with_span
from spinney.transport.remote.attendance import Attendance, PartyStream
from spinney.transport.remote.certificates import PARTY, Peer
from spinney.transport.remote.frames import VERSION, Ahead, Hello, Part, Said, decode

OTHERWISE = "The parts of its answer are not those that it began with."
SEEN = "Party 'north': It answered otherwise after it saw a part of the sum."
TOO_MUCH = "It sent more parts than an answer may have, or nobody asked."
WORDS = np.random.default_rng(5).integers(0, 2**64, 3 * PART // 8, dtype=np.uint64)
ANSWER = b"head" + WORDS.tobytes() + b"losses, and the tag"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def stream_of(name="north", most=1 << 20):
    peer = Peer(name, PARTY, "1", NOW, NOW, b"")
    hello = Hello(VERSION, "here", "run", 1, "1")
    stream = PartyStream(peer, hello, Condition(), most)
    stream.ask(b"question", b"its digest")
    return stream


def honest():
    *parts, last = frames_of(1, with_span(ANSWER, ToldBack(WORDS)))
    return parts, last


def test_an_honest_answer_arrives():
    parts, last = honest()
    stream = stream_of()
    for frame in (*parts, last):
        stream.heard(frame)
    assert stream.taken() == ANSWER


def test_what_follows_the_parts_cannot_be_chosen_after_their_sum_is_seen():
    """Other vectors of a reply, as the losses of boosting, and its tag are not in the parts."""
    parts, last = honest()
    stream = stream_of()
    for frame in parts:
        stream.heard(frame)
    with pytest.raises(ProtocolError, match=OTHERWISE):
        stream.heard(Said(1, last.body.replace(b"losses", b"chosen"), last.at))
    with pytest.raises(ProtocolError, match=OTHERWISE):  # nor where the parts stand
        stream.heard(Said(1, last.body, last.at + 1))
    assert stream.taken() is None


def test_parts_of_a_word_each_are_not_sent_on():
    """Each would go to every party in a frame of its own: a flood, by way of the coordinator."""
    stream, digest = stream_of(), sha256(ANSWER).digest()
    stream.heard(Part(1, ANSWER[:8], digest))
    with pytest.raises(ProtocolError, match=OTHERWISE):
        stream.heard(Part(1, ANSWER[8:16], digest))
    with pytest.raises(ProtocolError, match=OTHERWISE):
        stream_of().heard(Part(1, b"", digest))


@pytest.mark.parametrize("which", ["part", "answer", "work"])
def test_nothing_follows_an_answer_in_parts(which):
    """To check one again takes a second for each gigabyte, while all other parties wait."""
    parts, last = honest()
    stream = stream_of()
    for frame in (*parts, last):
        stream.heard(frame)
    more = {"part": parts[0], "answer": last, "work": Said(1, b"still at work")}[which]
    with pytest.raises(ProtocolError, match=TOO_MUCH):
        stream.heard(more)


def test_parts_and_the_rest_together_are_no_longer_than_an_answer():
    parts, last = honest()
    stream = stream_of(most=len(ANSWER))
    for frame in parts:
        stream.heard(frame)
    with pytest.raises(ProtocolError, match=TOO_MUCH):
        stream.heard(Said(1, last.body + b"x", last.at))
    stream.heard(last)
    assert stream.taken() == ANSWER


def test_an_answer_is_not_kept_without_the_parts_that_it_lacks():
    with pytest.raises(Exception, match="lacks what should have come ahead of it"):
        stream_of().heard(Said(1, b"head", 4))


class Asked:
    """A coordinator that asks two parties, whose connections are played here."""

    def __init__(self):
        self.attendance = Attendance()
        self.came: Mapping[str, object] = {}
        self.streams = {name: self.enter(name) for name in ("north", "south")}
        self.thread = Thread(target=self._ask, daemon=True)
        self.thread.start()
        self.wait(lambda: all(stream._number for stream in self.streams.values()))

    def enter(self, name):
        peer = Peer(name, PARTY, "1", NOW, NOW, b"")
        stream = self.attendance.enter(peer, Hello(VERSION, f"at {name}", "run", 1, "1"))
        assert stream is not None
        return stream

    def _ask(self):
        try:
            names = ("north", "south")
            self.came = self.attendance.ask(names, b"question", ("run", 1), 20)
        except ProtocolError as error:
            self.came = {"error": str(error)}

    def wait(self, reached):
        until = monotonic() + 60
        while not reached():
            assert monotonic() < until
            sleep(0.01)

    def ended(self):
        self.thread.join(60)
        return self.came


def sent_ahead(stream):
    """Return the sums that were sent to a party, after its stream was closed."""
    data = [stream._outgoing.get() for _ in range(stream._outgoing.qsize())]
    frames = [decode(one, Ahead) for one in data if one is not None and b"Ahead" in one[:20]]
    return b"".join(one.data for one in frames)


@pytest.mark.parametrize("how", ["whole", "other parts", "other rest", "still at work"])
def test_who_has_seen_a_part_of_the_sum_and_comes_back_answers_as_it_said(how):
    asked, (parts, _) = Asked(), honest()
    north, south = asked.streams.values()
    for frame in parts[:2]:
        north.heard(frame)
        south.heard(frame)
    asked.wait(lambda: north._ahead)
    back = asked.enter("north")
    asked.wait(lambda: back._number)
    other = b"head" + (WORDS + np.uint64(1)).tobytes() + b"losses, and the tag"
    made: dict[str, list[Part | Said]] = {
        "whole": [Said(1, other)],
        "other parts": list(frames_of(1, with_span(other, ToldBack(WORDS + np.uint64(1))))),
        "other rest": list(frames_of(1, with_span(ANSWER + b"!", ToldBack(WORDS)))),
        "still at work": [Said(1, b"still at work")],
    }
    for frame in made[how]:
        back.heard(frame)
    assert asked.ended() == {"error": SEEN}


def test_a_part_after_an_answer_does_not_pass_for_what_its_sender_said_before():
    """Both come before anybody looks: the answer is another one, the digest is that of before."""
    asked, (parts, _) = Asked(), honest()
    north, south = asked.streams.values()
    for frame in parts[:2]:
        north.heard(frame)
        south.heard(frame)
    asked.wait(lambda: north._ahead)
    back = asked.enter("north")
    asked.wait(lambda: back._number)
    with asked.attendance._changed:
        back.heard(Said(1, ANSWER.replace(b"losses", b"chosen")))
        back.heard(parts[0])
        assert back.taken() is None
    with pytest.raises(ProtocolError, match=OTHERWISE):
        back.heard(Said(1, ANSWER.replace(b"losses", b"chosen")))


def test_who_comes_back_with_the_same_answer_is_heard():
    asked, (parts, last) = Asked(), honest()
    north, south = asked.streams.values()
    for frame in (*parts, last):
        south.heard(frame)
    north.heard(parts[0])
    asked.wait(lambda: north._ahead)
    back = asked.enter("north")
    asked.wait(lambda: back._number)
    for frame in (*parts, last):
        back.heard(frame)
    assert asked.ended() == {"north": ANSWER, "south": ANSWER}
    assert not back._ahead  # it is told the rest with its question
    assert sent_ahead(north) == (WORDS[: PART // 8] * np.uint64(2)).tobytes()


def test_parts_after_an_answer_that_came_whole_change_nothing():
    """They go into a sum that no question tells, so all parties are asked whole."""
    asked, (parts, last) = Asked(), honest()
    north, south = asked.streams.values()
    north.heard(Said(1, ANSWER))
    asked.wait(lambda: north._arrived is None)
    for frame in parts:
        north.heard(Part(1, bytes(len(frame.data)), b"whatever"))
        south.heard(frame)
    south.heard(last)
    assert asked.ended() == {"north": ANSWER, "south": ANSWER}
    told = b"next: " + (WORDS * np.uint64(2)).tobytes()
    south.ask(told, b"another")
    frames = [south._outgoing.get() for _ in range(south._outgoing.qsize())]
    assert told in frames[-1]
