"""Everything that travels between a coordinator, its parties and its people: a closed list.

A frame is a msgpack value of one of the types below, checked field by field; nothing in it names
code. A party and the coordinator send frames both ways on one stream, each in pieces of at most
`PIECE` bytes. A person's request is one frame, and so is its answer.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final, TypeVar

import msgspec

from spinney.errors import StorageError

PIECE: Final = 1 << 20
"""The most bytes of a frame that travel in one message."""

FRAME_LIMIT: Final = 1 << 31
SMALL: Final = 4 << 20
"""The most bytes of a person's request or answer."""

VERSION: Final = 2
SLACK: Final = 1 << 16
"""How many bytes anybody may send at any time: greetings, refusals, and a frame's own fields."""

_LAST, _MORE = b"\1", b"\0"

RunId = str
T = TypeVar("T")


class RemoteFrame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """One message; its type is its tag."""


# --- from a party ---------------------------------------------------------------------------------


class Hello(RemoteFrame, frozen=True):
    """I am here: from which place, and which attempt of which run I am in."""

    version: int
    place: Annotated[str, msgspec.Meta(max_length=64)]
    run: Annotated[RunId, msgspec.Meta(max_length=64)]
    attempt: int
    release: Annotated[
        str, msgspec.Meta(max_length=32, pattern=r"\A[0-9A-Za-z.+]+\Z")
    ]  # of Spinney


class Decision(RemoteFrame, frozen=True):
    """Whether the party takes part in an attempt; if not, why."""

    number: int
    kind: str  # of the error; empty if it takes part
    reason: str
    head: bytes = b""  # of the party's ledger, and what it keeps of others'


class Part(RemoteFrame, frozen=True):
    """A part of the numbers in the answer to a question; the rest of the answer follows."""

    number: int
    data: bytes
    digest: bytes  # of the whole answer: nobody changes the rest after the first part


class Said(RemoteFrame, frozen=True):
    """The answer to a question, or that the party is still working on it."""

    number: int
    body: bytes
    at: int = -1  # where in the body its parts belong; below 0: it has none


# --- to a party -----------------------------------------------------------------------------------


class Welcome(RemoteFrame, frozen=True):
    """You are connected."""


class Unwelcome(RemoteFrame, frozen=True):
    """You are not connected; do not try again."""

    reason: str


class Offer(RemoteFrame, frozen=True):
    """Take part in this attempt of a run; the lead signed the run and its job."""

    number: int
    run: RunId
    attempt: int
    present: tuple[str, ...]
    job: bytes
    certificate: bytes
    signature: bytes
    heads: tuple[bytes, ...] = ()  # of the parties' ledgers, as the coordinator keeps them


class Ahead(RemoteFrame, frozen=True):
    """A part of what your next question will say: the sum of the parts of all answers."""

    number: int  # of the question that they answer
    data: bytes


class Inquiry(RemoteFrame, frozen=True):
    """Answer this question of the attempt you take part in."""

    number: int
    body: bytes
    at: int = -1  # where in the body belongs what was sent ahead; below 0: nothing was


class End(RemoteFrame, frozen=True):
    """The attempt is over; what it came to at the parties' ledgers, and why it ended early."""

    run: RunId
    attempt: int
    heads: tuple[bytes, ...] = ()
    why: str = ""


# --- from a person --------------------------------------------------------------------------------


class Submit(RemoteFrame, frozen=True):
    """Start a run of a job, which the lead signed together with the run's id."""

    run: RunId
    job: bytes
    signature: bytes


class Resume(RemoteFrame, frozen=True):
    """Resume a paused run; signed as for a start."""

    run: RunId
    job: bytes
    signature: bytes


class Runs(RemoteFrame, frozen=True):
    """Return the status of every run."""


class Show(RemoteFrame, frozen=True):
    """Return the status of a run."""

    run: RunId


class Abort(RemoteFrame, frozen=True):
    """End a run for good."""

    run: RunId


class Fetch(RemoteFrame, frozen=True):
    """Return the model and the report of a run."""

    run: RunId


class Present(RemoteFrame, frozen=True):
    """Return who is connected."""


# --- to a person ----------------------------------------------------------------------------------


class Done(RemoteFrame, frozen=True):
    """The request was carried out; its result as JSON or as a file's bytes."""

    result: bytes


class Refused(RemoteFrame, frozen=True):
    """The request was refused."""

    kind: str
    text: str


ANSWERS: Final = Decision | Part | Said  # from a party, after its hello
TO_PARTY: Final = Welcome | Unwelcome | Offer | Ahead | Inquiry | End
FROM_PERSON: Final = (Submit, Resume, Runs, Show, Abort, Fetch, Present)
REQUESTS: Final = Submit | Resume | Runs | Show | Abort | Fetch | Present
TO_PERSON: Final = Done | Refused


def encode(frame: RemoteFrame) -> bytes:
    """Return a frame's bytes."""
    return msgspec.msgpack.encode(frame)


def decode(data: bytes, kind: Any) -> Any:
    """Return the frame of these types in the bytes; raise if there is none."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StorageError("A message is malformed.", local=str(error)[:200]) from None


def pieces(data: bytes) -> Iterator[bytes]:
    """Yield a frame's bytes in pieces; the first byte of each says whether it is the last."""
    whole = memoryview(data)
    for begin in range(0, max(1, len(whole)), PIECE):
        part = whole[begin : begin + PIECE]
        yield (_LAST if begin + PIECE >= len(whole) else _MORE) + part


def joined(
    parts: Iterable[bytes], limit: Callable[[], int] = lambda: FRAME_LIMIT
) -> Iterator[bytes]:
    """Yield the frames whose pieces arrive; raise if a frame is longer than the present limit.

    Every piece but the last is full, so that a frame has no more pieces than it needs.
    """
    held: list[bytes] = []
    size = 0
    for part in parts:
        size += len(part)
        is_piece = part[:1] == _LAST or (part[:1] == _MORE and len(part) == PIECE + 1)
        most = limit()
        if not is_piece or size > most + SLACK:
            raise StorageError(
                f"A message may have at most {most + SLACK} bytes now; got more, or no piece."
            )
        held.append(part[1:])
        if part[:1] == _LAST:
            yield b"".join(held)
            held, size = [], 0
