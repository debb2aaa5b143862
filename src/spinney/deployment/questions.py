"""What is asked around a protocol: whether a party takes part, and that it keeps the model.

**Who learns what.** The coordinator learns whether a party takes part, or the rule by which it
refuses; and in the end that a party has kept the model, which it is sent for that.
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
