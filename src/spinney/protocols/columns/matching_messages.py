"""The questions and answers of matching.

**Who learns what.** See `columns.matching`.
"""

from typing import Any, ClassVar

from spinney.privacy.matching import Tags
from spinney.protocols.columns.seat import UNSIGNED, Signed, Unsigned
from spinney.transport.channel import Ask
from spinney.transport.messages import message


@message
class MeetReply:
    """A public key for letters, and the kind of the ids."""

    public_key: bytes
    n_ids: int
    kind: str
    signed: Signed | Unsigned = UNSIGNED


@message
class MeetAsk(Ask[MeetReply]):
    """How many ids do you have, of which kind, and what is your public key for letters?"""

    party: str
    reveals: ClassVar[str] = "how many row ids, whether they are text or numbers, a public key"
    reply_type: ClassVar[type[Any]] = MeetReply


@message
class SecretReply:
    """Letters with the matching key, one for each other party."""

    letters: tuple[bytes, ...]


@message
class SecretAsk(Ask[SecretReply]):
    """Will you draw a key and send it to these parties?"""

    parties: tuple[str, ...]
    public_keys: tuple[bytes, ...]
    signed: tuple[Signed, ...] | Unsigned = UNSIGNED  # each key by its party
    reveals: ClassVar[str] = "nothing: letters that only their parties can open"
    reply_type: ClassVar[type[Any]] = SecretReply


@message
class TakenReply:
    """The party has the key, or the common rows."""

    party: str
    signed: Signed | Unsigned = UNSIGNED  # the leading party signs the common rows for the others


@message
class TakeAsk(Ask[TakenReply]):
    """Can you open this letter from the leading party?"""

    lead: str
    public_key: bytes
    letter: bytes
    signed: Signed | Unsigned = UNSIGNED  # the key, by the leading party
    reveals: ClassVar[str] = "that a letter could be opened"
    reply_type: ClassVar[type[Any]] = TakenReply


@message
class TagsReply:
    """Tags, sorted so that their order reveals nothing about the order of rows."""

    tags: Tags


@message
class TagsAsk(Ask[TagsReply]):
    """What are the tags of your ids?"""

    reveals: ClassVar[str] = "the keyed hash of every row id"
    reply_type: ClassVar[type[Any]] = TagsReply


@message
class RequestReply:
    """The leading party's ids under its own secret key."""

    data: bytes
    signed: Signed | Unsigned = UNSIGNED


@message
class RequestAsk(Ask[RequestReply]):
    """What is your request to the others for common ids?"""

    size_only: bool
    reveals: ClassVar[str] = "nothing: row ids under a secret key"
    reply_type: ClassVar[type[Any]] = RequestReply


@message
class RespondReply:
    """A party's ids under its own key, and the leading party's ids under both keys."""

    setup: bytes
    response: bytes
    signed: Signed | Unsigned = UNSIGNED


@message
class RespondAsk(Ask[RespondReply]):
    """What is your answer to this request for common ids?"""

    n_ids: int
    request: bytes
    size_only: bool
    signed: Signed | Unsigned = UNSIGNED  # the request, by the leading party
    reveals: ClassVar[str] = "to the leading party, which or how many of its row ids this party has"
    reply_type: ClassVar[type[Any]] = RespondReply


@message
class SharedReply:
    """The tags of the rows that all parties share, or the number shared with each party."""

    tags: Tags
    sizes: tuple[int, ...]


@message
class SharedAsk(Ask[SharedReply]):
    """Which rows do all parties share, according to these answers?"""

    answers: tuple[RespondReply, ...]
    size_only: bool
    reveals: ClassVar[str] = "the size of the intersection; keyed hashes of common row ids"
    reply_type: ClassVar[type[Any]] = SharedReply


@message
class CommonAsk(Ask[TakenReply]):
    """Will you use these rows in this order, and leave out the others?"""

    tags: Tags
    signed: Signed | Unsigned = UNSIGNED  # by the leading party, which is asked first
    reveals: ClassVar[str] = "that a party has all the common rows"
    reply_type: ClassVar[type[Any]] = TakenReply


ASKS: tuple[type[Ask[Any]], ...] = (
    MeetAsk, SecretAsk, TakeAsk, TagsAsk, RequestAsk, RespondAsk, SharedAsk, CommonAsk,
)  # fmt: skip
