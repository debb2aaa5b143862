"""Messages between a coordinator and a party: a question in an envelope, and its answer.

The envelope says to which job and attempt a question belongs, and numbers it. So the same question
can be sent again, but an old one is refused. The body is the codec's bytes.
"""

import errno
from dataclasses import dataclass

from spinney import errors
from spinney.errors import InternalError, SpinneyError, StorageError
from spinney.transport import codec

QUESTION_LIMIT = 1 << 30
"""The largest question, in bytes."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
WORKING, REPLY, REFUSED = "working", "reply", "refused"


@dataclass(frozen=True)
class Envelope:
    """A question, with its job, attempt and number."""

    run: str
    attempt: int
    number: int  # rises by one with every question of an attempt
    kind: str
    body: bytes
    heads: tuple[bytes, ...] = ()  # of all parties' ledgers, with the first question to a party


@dataclass(frozen=True)
class Answer:
    """A party's answer: its reply, that it is still working, or why it refuses."""

    run: str
    attempt: int
    number: int
    state: str
    kind: str  # the reply's type, or the error's
    text: str  # the public part of an error
    body: bytes
    head: bytes = b""  # where the party's ledger ends now


def refusal(envelope: Envelope, error: Exception) -> Answer:
    """Return an error as an answer: only its public part, and nothing of an unexpected error."""
    error = full_disk(error) or error
    known = isinstance(error, SpinneyError)
    kind = type(error).__name__ if known else InternalError.__name__
    text = error.public if isinstance(error, SpinneyError) else "The party failed; see its own log."
    return Answer(envelope.run, envelope.attempt, envelope.number, REFUSED, kind, text, b"")


def full_disk(error: Exception) -> StorageError | None:
    """Return the public error for a full disk; None if the cause is something else."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return StorageError("This party's disk is full. Make room on it, then try again.")
    return None


def error_of(answer: Answer, party: str) -> SpinneyError:
    """Return the error that a refusal describes."""
    kind = getattr(errors, answer.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, SpinneyError)):
        kind = InternalError
    error = SpinneyError.__new__(kind)
    SpinneyError.__init__(error, answer.text[:4096])
    error.party = party
    return error


def open_message(
    data: object, kind: type[Envelope] | type[Answer], limit: int
) -> Envelope | Answer:
    """Decode and check an envelope or an answer."""
    if not isinstance(data, bytes):
        raise StorageError("A message is not a Spinney message.")
    message: Envelope | Answer = codec.decode(data, kind, limit=limit)
    return message
