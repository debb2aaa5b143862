"""Questions before and after a protocol: whether a party takes part, and whether it kept the model.

**Who learns what.** The coordinator learns whether a party takes part, or the rule by which it
refuses. At the end it sends each party the model, and learns that the party has kept it.
"""

from typing import Any, ClassVar

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
