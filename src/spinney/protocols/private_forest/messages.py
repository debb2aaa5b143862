"""The questions of a private forest: join, and count the leaves.

**Who learns what.** See `spinney.protocols.private_forest`.
"""

from typing import Any, ClassVar

from spinney.protocols.accounts.account import ClaimsAsk, JoinReply
from spinney.protocols.accounts.replies import NoisyReply, Signed
from spinney.protocols.private_forest.settings import Settings
from spinney.protocols.rows.setup import SchemaAsk
from spinney.transport.channel import Ask
from spinney.transport.messages import message
from spinney.trees.level import Level


@message
class ForestJoinAsk(Ask[JoinReply]):
    """Will you take part in this private forest, at this price?"""

    settings: Settings
    schema_digest: str
    n_parties: int
    reveals: ClassVar[str] = "that the party takes part, and that its budget allows it"
    reply_type: ClassVar[type[Any]] = JoinReply


@message
class RandomLeavesAsk(Signed, Ask[NoisyReply]):
    """What do the leaves of these random trees hold, with noise?"""

    settings: Settings
    schema_digest: str
    n_parties: int
    levels: tuple[Level, ...]
    reveals: ClassVar[str] = "class counts of the leaves of random trees, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    @property
    def step(self) -> int:
        """The one step of the job."""
        return 0

    @property
    def story(self) -> tuple[Level, ...]:
        """The levels of the drawn trees."""
        return self.levels


SUMMED: tuple[type[Ask[Any]], ...] = (RandomLeavesAsk,)
"""The questions whose replies are summed; under `secure_sum` they are masked."""


ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, ForestJoinAsk, ClaimsAsk, *SUMMED)
"""Every question that a party answers."""
