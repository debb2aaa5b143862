"""Questions before and after a protocol: whether a party takes part, and whether it kept the model.

**Who learns what.** The coordinator learns whether a party takes part, or the rule by which it
refuses. At the end it sends each party the model, or, where parties derive it, what the last step
came to; it learns that the party has kept the model, and its digest.
"""

from typing import Any, ClassVar

from spinney.protocols.verified.messages import Opened
from spinney.transport.channel import Ask
from spinney.transport.messages import message


@message
class ProposalReply:
    """Yes, or the rule by which the party refuses."""

    accepts: bool
    reason: str


@message
class ProposalAsk(Ask[ProposalReply]):
    """Would you take part in this job?"""

    digest: str
    reveals: ClassVar[str] = "whether the party takes part, or the rule by which it refuses"
    reply_type: ClassVar[type[Any]] = ProposalReply


@message
class ModelReply:
    """The model was kept."""

    digest: str


@message
class ModelAsk(Ask[ModelReply]):
    """Will you keep the finished model?"""

    model: bytes
    reveals: ClassVar[str] = "nothing"
    reply_type: ClassVar[type[Any]] = ModelReply


@message
class DerivedAsk(Ask[ModelReply]):
    """Which model have you derived? (A party tells only whether it is this one.)"""

    digest: str
    before: tuple[Opened, ...]  # what the last steps came to
    reveals: ClassVar[str] = "nothing"
    reply_type: ClassVar[type[Any]] = ModelReply
