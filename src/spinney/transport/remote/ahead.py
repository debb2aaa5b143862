"""Numbers that travel ahead: parts of an answer, and the sum of all parties' parts.

A line carries both ways at once. Where the sum of the parties' numbers is told to them as it is, it
comes back part by part while the rest is still on its way up. Nothing else changes: an answer and a
question have the same bytes as if they came whole, they are only put together at their receiver. A
party that has connected again is sent its question whole.

With its first part a party says the digest of its answer: so it cannot choose the rest of it by
what came back of the first, nor after it has connected again.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from threading import Lock
from typing import Final, Protocol

import numpy as np

from spinney.errors import ProtocolError, StorageError
from spinney.transport.channel import Running, ToldBack, Vector
from spinney.transport.remote.frames import Ahead, Inquiry, Part, Said
from spinney.transport.remote.wire import QUESTION_LIMIT

PART: Final = 1 << 16
"""The most bytes of a part; also the fewest for which it is worth while."""

_WORD: Final = 8
_KINDS: Final = (np.uint64, np.uint8)
_OTHER: Final = "The parts of its answer are not those that it began with."


class Divided(bytes):
    """The bytes of an answer, and which of them are numbers that travel ahead of the rest."""

    span: tuple[int, int]
    worth: int  # the most bytes of the sum for each of theirs


def with_span(answer: bytes, told: ToldBack | None) -> bytes:
    """Return the bytes of an answer, and with them where these numbers stand, if there are many."""
    if told is None or told.numbers.dtype not in _KINDS or told.numbers.nbytes < PART:
        return answer
    first = answer.find(_in_order(told.numbers).tobytes())
    if first < 0:
        return answer
    found = Divided(answer)
    found.span, found.worth = (first, first + told.numbers.nbytes), told.worth
    return found


def _in_order(numbers: Vector) -> Vector:
    return np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<"))


class Added(bytes):
    """The bytes of a question, and what tells the sum of its answers while they come."""

    running: Running


def with_running(question: bytes, running: Running | None) -> bytes:
    """Return the bytes of a question, and with them what tells the sum of its answers, if any."""
    if running is None:
        return question
    made = Added(question)
    made.running = running
    return made


def frames_of(number: int, answer: bytes) -> Iterator[Part | Said]:
    """Yield the frames of an answer."""
    if not isinstance(answer, Divided):
        yield Said(number, answer)
        return
    first, last = answer.span
    promise = sha256(answer).digest()
    for begin in range(first, last, PART):
        yield Part(number, answer[begin : min(begin + PART, last)], promise)
    yield Said(number, answer[:first] + answer[last:], first)


def whole(body: bytes, at: int, ahead: bytes) -> bytes:
    """Return a body with what came ahead of it in its place; below 0: nothing belongs to it."""
    if at < 0:
        return body
    if at > len(body) or not ahead:
        raise StorageError("A message lacks what should have come ahead of it.")
    return b"".join((body[:at], ahead, body[at:]))


def require_next(parts: bytes | bytearray, promise: bytes, part: Part) -> None:
    """Raise unless a part may follow those that came: every one but the last is full."""
    is_next = len(parts) % PART == 0 and (not parts or part.digest == promise)
    if not (part.data and is_next):
        raise ProtocolError(_OTHER)


def kept_whole(said: Said, parts: bytes, promise: bytes) -> bytes:
    """Return an answer put together; raise unless it is the one that its parts began."""
    answer = whole(said.body, said.at, parts)
    if parts and (said.at < 0 or sha256(answer).digest() != promise):
        raise ProtocolError(_OTHER)
    return answer


def divided(body: bytes, ahead: bytes) -> tuple[bytes, int]:
    """Return a body without what was sent ahead, and its place; all of it if it holds no such."""
    at = body.find(ahead) if ahead else -1
    return (bytes(body), at) if at < 0 else (body[:at] + body[at + len(ahead) :], at)


class Arrived:
    """What came to a party ahead of its next question.

    That is never more than what it sent may be worth, nor than a question may have.
    """

    def __init__(self) -> None:
        self._number = 0  # of the question that it answers
        self._sent = 0
        self._held = bytearray()
        self._lock = Lock()  # answers leave in a thread of their own

    def sent(self, part: Part, worth: int = 1) -> None:
        """Expect as much of the sum as leaves in a part, or as its numbers may be worth."""
        with self._lock:
            if part.number == self._number:
                self._sent += worth * len(part.data)

    def take(self, frame: Ahead) -> None:
        """Keep a part of the sum; raise if it is not about the parts that left."""
        with self._lock:
            fits = frame.data and frame.number == self._number
            most = min(self._sent, QUESTION_LIMIT)
            if not fits or len(self._held) + len(frame.data) > most:
                raise StorageError("More of a sum came than this party sent parts for it.")
            self._held += frame.data

    def asked(self, inquiry: Inquiry) -> Inquiry:
        """Return a question as a whole; it is the one that is answered from now on."""
        with self._lock:
            body = whole(inquiry.body, inquiry.at, bytes(self._held))
            self._number, self._sent = inquiry.number, 0
            self._held.clear()
        return Inquiry(inquiry.number, body)


class Sending(Protocol):
    """A party's connection, as the sum of parts sees it."""

    name: str
    is_open: bool
    parts: bytearray  # of its answer, so far
    promise: bytes  # the digest that it said of all of the answer

    def send_ahead(self, data: bytes) -> None:
        """Send a part of the sum."""
        ...


class _Words:
    """A sum of words that is told as it is."""

    def __init__(self) -> None:
        self._done = 0

    def more(self, parts: Sequence[bytearray]) -> bytes:
        """Return the sums of the next words that have come of all."""
        last = min(map(len, parts)) // _WORD * _WORD
        total = np.zeros((last - self._done) // _WORD, "<u8")
        for part in parts:
            total += np.frombuffer(bytes(part[self._done : last]), "<u8")
        self._done = last
        return total.tobytes()


class RunningSum:
    """The sum of the parts that all parties have sent, of one question to all of them."""

    def __init__(
        self, digest: bytes, streams: Sequence[Sending | None], question: bytes = b""
    ) -> None:
        self.digest = digest
        self._running = question.running if isinstance(question, Added) else _Words()
        self._streams = [stream for stream in streams if stream is not None]
        self._goes_on = len(self._streams) == len(streams) > 1
        self._promised: dict[str, bytes] = {}  # what those said who were sent some of the sum

    def go_on(self) -> None:
        """Add up what has come of all, and send it on; not after somebody's connection ended."""
        self._goes_on = self._goes_on and all(stream.is_open for stream in self._streams)
        if not self._goes_on:
            return
        parts = [stream.parts for stream in self._streams]
        if not all(parts) or not (told := self._running.more(parts)):
            return
        for stream in self._streams:
            self._promised.setdefault(stream.name, stream.promise)
            stream.send_ahead(told)

    def require_kept(self, name: str, promise: bytes) -> None:
        """Raise if a party that saw some of the sum has answered otherwise than it said before."""
        if self._promised.get(name, promise) != promise:
            error = ProtocolError("It answered otherwise after it saw a part of the sum.")
            error.party = name
            raise error
