"""The parties that are connected to the coordinator, and questions to them.

Every party has one stream. A question goes out on it once; a party that is still working says so on
the stream until its answer is ready. After a party has connected again, the question is sent again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from queue import Empty, SimpleQueue
from threading import Condition
from time import monotonic
from typing import Final

from spinney.errors import PartyLostError, ProtocolError
from spinney.transport.remote.ahead import RunningSum, divided, kept_whole, require_next
from spinney.transport.remote.certificates import Peer
from spinney.transport.remote.channel import transfer_seconds
from spinney.transport.remote.frames import (
    FRAME_LIMIT,
    Ahead,
    Decision,
    End,
    Hello,
    Inquiry,
    Offer,
    Part,
    RemoteFrame,
    Said,
    encode,
    pieces,
)

_MOVING: Final = 30.0  # seconds after which a start kit may be used in another place
_IDLE: Final = 5.0  # seconds after which a stream that must end is looked at again


class AbortedError(Exception):
    """Nobody wants the answer any more."""


class PartyStream:
    """One party's connection."""

    def __init__(
        self, peer: Peer, hello: Hello, changed: Condition, most: int = FRAME_LIMIT
    ) -> None:
        self._most = most
        self.on_close: Callable[[], object] = lambda: None
        self.peer = peer
        self.name = peer.name
        self.place = hello.place
        self.attempt = (hello.run, hello.attempt)
        self.is_open = True
        self.last_heard = monotonic()
        self._changed = changed
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self._number = 0
        self._asked = b""  # digest of the question on its way
        self._arrived: bytes | None = None
        self.parts = bytearray()  # of the answer to it
        self.promise = b""  # the digest of all of the answer
        self._is_kept = False  # whether the answer is there that the parts began
        self._ahead = bytearray()  # what was sent of the next question
        self._verdicts: dict[int, Decision] = {}

    def limit(self) -> int:
        """Return how many bytes the party may send now: little, unless it was asked."""
        return self._most if self._asked else 0

    def send(self, frame: RemoteFrame) -> None:
        """Send a frame."""
        self._outgoing.put(encode(frame))

    def outgoing(self) -> Iterator[bytes]:
        """Yield the pieces of frames to be sent, until the stream is closed."""
        while self.is_open:
            try:
                data = self._outgoing.get(timeout=_IDLE)
            except Empty:
                continue
            if data is None:
                return
            yield from pieces(data)

    def close(self) -> None:
        """End the stream, also one whose party takes nothing."""
        with self._changed:
            was_open, self.is_open = self.is_open, False
            self._outgoing.put(None)
            self._changed.notify_all()
        if was_open:
            self.on_close()

    def rest(self) -> None:
        """Expect nothing more in the present attempt."""
        self.attempt, self._asked = ("", 0), b""
        self._forget_parts()

    def _forget_parts(self) -> None:
        self.parts.clear()
        self.promise = b""
        self._is_kept = False
        self._ahead.clear()

    def offer(self, offer: Offer) -> int:
        """Offer an attempt; return the number under which the verdict will come."""
        self._number += 1
        self._asked, self._arrived = b"", None
        self._forget_parts()
        self.attempt = (offer.run, offer.attempt)
        self.send(
            Offer(
                self._number,
                offer.run,
                offer.attempt,
                offer.present,
                offer.job,
                offer.certificate,
                offer.signature,
                offer.heads,
            )
        )
        return self._number

    def ask(self, data: bytes, digest: bytes) -> None:
        """Send a question, unless it is already on its way."""
        if digest != self._asked:
            self._number += 1
            self._asked, self._arrived = digest, None
            self.send(Inquiry(self._number, *divided(data, bytes(self._ahead))))
            self._forget_parts()

    def send_ahead(self, data: bytes) -> None:
        """Send a part of the sum of all answers, which the next question will tell."""
        self._ahead += data
        self.send(Ahead(self._number, data))

    def heard(self, frame: Decision | Part | Said) -> None:
        """Take a frame from the party; raise if nobody asked for it."""
        with self._changed:
            self.last_heard = monotonic()
            if frame.number > self._number:
                raise ProtocolError("It answered a question that was never asked.")
            if isinstance(frame, Decision):
                self._verdicts = {frame.number: frame}
            elif frame.number == self._number:
                self._take(frame)
            self._changed.notify_all()

    def _take(self, frame: Part | Said) -> None:
        """Keep an answer, or a part of one; with all its parts it is no longer than an answer."""
        data = frame.body if isinstance(frame, Said) else frame.data
        more = len(self.parts) + len(data) > self.limit()
        if self._is_kept or (more and (self.parts or isinstance(frame, Part))):
            raise ProtocolError("It sent more parts than an answer may have, or nobody asked.")
        if isinstance(frame, Said):  # that it still works is of no use once it has answered
            self._arrived = kept_whole(frame, bytes(self.parts), self.promise)
            self._is_kept = bool(self.parts)
        else:
            require_next(self.parts, self.promise, frame)
            self.parts += frame.data
            self.promise = frame.digest
            self._arrived = None  # an answer from before would pass for the one that is promised

    def verdict(self, number: int) -> Decision | None:
        """Return the verdict on an offer; None if there is none yet."""
        return self._verdicts.get(number)

    def taken(self) -> bytes | None:
        """Return the newest answer that has arrived, once; None if there is none."""
        newest, self._arrived = self._arrived, None
        return newest


class Attendance:
    """All connected parties."""

    def __init__(
        self,
        places: Mapping[str, str] | None = None,
        settle: Callable[[str, str], None] = lambda *_: None,
    ) -> None:
        self._changed = Condition()
        self._streams: dict[str, PartyStream] = {}
        # Where each party was last, and when it was heard there; for those of an earlier process it
        # is as if they had just left, so that a copy does not come first.
        now = monotonic()
        self._last = {name: (place, now) for name, place in (places or {}).items()}
        self._settle = settle
        self._sum = RunningSum(b"", ())  # of the question that was asked last
        self.most = FRAME_LIMIT  # bytes of an answer

    def names(self) -> tuple[str, ...]:
        """Return who is connected."""
        with self._changed:
            return tuple(sorted(self._streams))

    def last_heard(self) -> dict[str, float]:
        """Return how many seconds ago each connected party was heard."""
        with self._changed:
            now = monotonic()
            return {name: now - stream.last_heard for name, stream in self._streams.items()}

    def peers(self) -> tuple[Peer, ...]:
        """Return the certificates of who is connected."""
        with self._changed:
            return tuple(stream.peer for stream in self._streams.values())

    def wake(self) -> None:
        """Let whoever waits for an answer look whether it is still wanted."""
        with self._changed:
            self._changed.notify_all()

    def enter(self, peer: Peer, hello: Hello) -> PartyStream | None:
        """Return the stream of a party that connects; None if it is connected from elsewhere.

        The check comes before the old stream is replaced, so that a copy unseats nobody.
        """
        stream = PartyStream(peer, hello, self._changed, self.most)
        with self._changed:
            old = self._streams.get(peer.name)
            place, left = self._last.get(peer.name, (hello.place, 0.0))
            if hello.place != place and (old is not None or monotonic() - left < _MOVING):
                return None
            self._settle(peer.name, hello.place)
            self._last[peer.name] = (hello.place, monotonic())
            self._streams[peer.name] = stream
            self._changed.notify_all()
        if old is not None:
            old.close()
        return stream

    def leave(self, stream: PartyStream) -> None:
        """Forget a stream that has ended."""
        stream.close()
        with self._changed:
            if self._streams.get(stream.name) is stream:
                del self._streams[stream.name]
                self._last[stream.name] = (stream.place, monotonic())
                self._changed.notify_all()

    def dismiss(self, name: str) -> None:
        """End a party's connection."""
        with self._changed:
            stream = self._streams.get(name)
        if stream is not None:
            self.leave(stream)

    def offer(self, offer: Offer, seconds: float) -> dict[str, Decision]:
        """Offer an attempt to the parties present in it; return the verdicts that came in time."""
        with self._changed:
            asked = {
                name: (stream, stream.offer(offer))
                for name, stream in self._streams.items()
                if name in offer.present
            }
            until = monotonic() + seconds
            while True:
                found = {
                    name: verdict
                    for name, (stream, number) in asked.items()
                    if (verdict := stream.verdict(number)) is not None
                }
                waiting = [name for name in asked if name not in found and asked[name][0].is_open]
                if not waiting or not self._changed.wait(until - monotonic()):
                    return found

    def ask(
        self,
        names: Sequence[str],
        data: bytes,
        attempt: tuple[str, int],
        seconds: float,
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> Mapping[str, object]:
        """Put a question to parties; return what they say within so many seconds."""
        until = monotonic() + seconds + transfer_seconds(len(data) * len(names))
        came: dict[str, object] = {}
        digest = sha256(data).digest()
        with self._changed:
            if self._sum.digest != digest:
                streams = [self._streams.get(name) for name in names]
                self._sum = RunningSum(digest, streams, data)
            while True:
                if is_unwanted():
                    raise AbortedError
                for name in names:
                    stream = self._streams.get(name)
                    if name in came or stream is None:
                        continue
                    if stream.attempt != attempt:  # it has started again since, and knows nothing
                        raise _started_again(name)
                    stream.ask(data, digest)
                    said = stream.taken()
                    if said is not None:
                        self._sum.require_kept(name, stream.promise)
                        came[name] = said
                self._sum.go_on()
                if len(came) == len(names) or not self._changed.wait(until - monotonic()):
                    return came

    def end(
        self,
        run: str,
        attempt: int,
        names: Sequence[str],
        heads: tuple[bytes, ...] = (),
        why: str = "",
    ) -> None:
        """Tell parties that an attempt is over, and where their ledgers end."""
        with self._changed:
            for name in names:
                stream = self._streams.get(name)
                if stream is not None and stream.attempt == (run, attempt):
                    stream.rest()
                    stream.send(End(run, attempt, heads, why))


def _started_again(name: str) -> PartyLostError:
    error = PartyLostError(f"The party {name!r} was started again; so is the attempt.")
    error.missing = (name,)
    return error
