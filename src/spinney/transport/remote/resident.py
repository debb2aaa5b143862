"""A party's end of the connection: it answers one question at a time, and repeats its answers.

It reads a question only if it belongs to the job that this party has joined, is not older than the
current one, and is of a kind that the job's protocol asks. The work runs in a separate thread;
a caller that asks meanwhile learns that the work continues.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from hashlib import sha256
from threading import Lock
from typing import Any, Final

from spinney.errors import ProtocolError, SpinneyError
from spinney.transport import codec
from spinney.transport.channel import Answering, Ask, keep_told_back, told_back
from spinney.transport.remote.ahead import with_span
from spinney.transport.remote.wire import (
    QUESTION_LIMIT,
    REPLY,
    WORKING,
    Answer,
    Envelope,
    open_message,
    refusal,
)

_LOG: Final = logging.getLogger("spinney.party")
_AUDIT: Final = logging.getLogger("spinney.audit")


class Resident:
    """Answers envelopes.

    Parameters
    ----------
    party
        Answers questions.
    run, attempt
        The job that this party takes part in; questions of other jobs are refused.
    known
        The kinds of questions it reads.
    hold
        How many seconds a caller waits for an answer before it learns that the work continues;
        well below the time limit of a message.
    limit
        The largest question, in bytes.
    meet
        Is shown the heads of all parties' ledgers before a question is answered.
    head
        Returns where the party's own ledger ends, after an answer.
    """

    def __init__(
        self,
        party: Answering,
        *,
        run: str,
        attempt: int,
        known: Mapping[str, type[Ask[Any]]],
        hold: float = 2.0,
        limit: int = QUESTION_LIMIT,
        meet: Callable[[Sequence[bytes]], None] = lambda _: None,
        head: Callable[[], bytes] = bytes,
    ) -> None:
        self._party = party
        self._meet = meet
        self._head = head
        self._run, self._attempt = run, attempt
        self._known = dict(known)
        self._hold = hold
        self._limit = limit
        self._lock = Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="spinney-party")
        self._number = 0
        self._digest = b""
        self._answer: Future[Answer] | None = None
        self._closed = False

    def answers(self, data: object) -> Iterator[bytes]:
        """Yield that the work continues, from time to time, and then the answer, as bytes."""
        nowhere = Envelope("", 0, 0, "", b"")
        try:
            envelope = open_message(data, Envelope, self._limit)
        except SpinneyError as error:
            _AUDIT.warning("A message of the coordinator was refused: %s", error)
            yield codec.encode(refusal(nowhere, error))
            return
        assert isinstance(envelope, Envelope)
        here = (envelope.run, envelope.attempt, envelope.number)
        working = codec.encode(Answer(*here, WORKING, "", "", b""))
        while True:
            try:
                answer = self._begun(envelope).result(self._hold)
            except SpinneyError as error:
                _note_refused(envelope, error)
                yield codec.encode(refusal(envelope, error))
                return
            except NotYetError:
                yield working
            except CancelledError:  # closed; a new attempt may continue
                yield working
                return
            else:
                yield with_span(codec.encode(answer), told_back(answer))
                return

    def answer(self, data: object) -> bytes:
        """Return the answer to an envelope, or that the work continues."""
        return next(self.answers(data))

    def close(self) -> None:
        """Accept no more questions."""
        with self._lock:
            self._closed = True
        self._worker.shutdown(wait=False, cancel_futures=True)

    def wait(self, seconds: float) -> bool:
        """Wait until no answer is being worked on; return whether that is so."""
        pending = self._answer
        if pending is None or pending.cancelled():
            return True
        try:
            pending.exception(seconds)
        except NotYetError:
            return False
        except CancelledError:
            return True
        return True

    def _begun(self, envelope: Envelope) -> "Future[Answer]":
        """Return the pending answer; begin it if the question is new."""
        if (envelope.run, envelope.attempt) != (self._run, self._attempt):
            raise ProtocolError("The question belongs to a job that this party has not joined.")
        shown = b"".join(sha256(head).digest() for head in envelope.heads)
        digest = sha256(shown + envelope.kind.encode() + b"\0" + envelope.body).digest()
        with self._lock:
            if self._closed:  # not a refusal, which would end the run: a new attempt may continue
                raise CancelledError
            if envelope.number == self._number and self._answer is not None:
                if digest != self._digest:
                    raise ProtocolError(
                        f"Question {envelope.number} was asked before with different content. "
                        "Nothing was released."
                    )
                return self._answer
            if envelope.number <= self._number:
                raise ProtocolError(
                    f"Question {envelope.number} is replayed: question {self._number} has been "
                    "answered since. Nothing was released."
                )
            if self._answer is not None and not self._answer.done():
                raise ProtocolError("The previous question is not answered yet.")
            self._number, self._digest = envelope.number, digest
            self._answer = self._worker.submit(self._worked, envelope)
            return self._answer

    def _kind(self, envelope: Envelope) -> type[Ask[Any]]:
        kind = self._known.get(envelope.kind)
        if kind is None:
            raise ProtocolError("The question is of a kind that this job does not ask.")
        return kind

    def _worked(self, envelope: Envelope) -> Answer:
        try:
            kind = self._kind(envelope)
            ask = codec.decode(envelope.body, kind, limit=self._limit)
            self._meet(envelope.heads)
            reply = self._party.answer(ask)
            here = (envelope.run, envelope.attempt, envelope.number)
            body, head = codec.encode(reply), self._head()
            answer = Answer(*here, REPLY, type(reply).__name__, "", body, head)
            numbers = told_back(reply)
            return answer if numbers is None else keep_told_back(answer, numbers)
        except SpinneyError as error:
            _note_refused(envelope, error)
            return refusal(envelope, error)
        except Exception as error:  # noqa: BLE001  its text may hold data, and stays here
            _LOG.exception("Question %d failed.", envelope.number)
            return refusal(envelope, error)


def _note_refused(envelope: Envelope, error: SpinneyError) -> None:
    _AUDIT.warning("Question %d of the coordinator was refused: %s", envelope.number, error)
