"""The questions of private boosting: joining, first facts, and the sums of batches of trees.

**Who learns what.** See `spinney.protocols.private_boosting`.
"""

from typing import Any, ClassVar

from spinney.protocols.accounts.account import ClaimsAsk, JoinReply
from spinney.protocols.noisy_boosting.messages import FirstFactsAsk, LeafSumsAsk
from spinney.protocols.noisy_boosting.settings import Settings
from spinney.protocols.rows.setup import SchemaAsk
from spinney.transport.channel import Ask
from spinney.transport.messages import message


@message
class BoostingJoinAsk(Ask[JoinReply]):
    """Will you take part in this private boosting, at this price?"""

    settings: Settings
    schema_digest: str
    n_parties: int
    reveals: ClassVar[str] = "that the party takes part, and that its budget allows it"
    reply_type: ClassVar[type[Any]] = JoinReply


SUMMED: tuple[type[Ask[Any]], ...] = (FirstFactsAsk, LeafSumsAsk)
"""The questions whose replies are summed; under `secure_sum` they are masked."""


ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, BoostingJoinAsk, ClaimsAsk, *SUMMED)
"""Every question that a party answers."""
