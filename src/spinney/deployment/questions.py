"""Questions before and after a protocol: whether a party takes part, and whether it kept the model.

**Who learns what.** The coordinator learns whether a party takes part, or the rule by which it
refuses. At the end it sends each party the model, or, where parties derive it, what the last step
came to; it learns that the party has kept the model, and its digest. A blind coordinator then asks
one party for the model, and learns the model that all parties have, and its quality.
"""

from typing import Any, ClassVar

from spinney.protocols.training import PartyClaim
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

    digest: str  # empty if the coordinator is blind: then a party tells which it is
    before: tuple[Opened, ...]  # what the last steps came to
    reveals: ClassVar[str] = "nothing"
    reply_type: ClassVar[type[Any]] = ModelReply


@message
class Judged:
    """How good a model is, as `protocols.training.Quality` holds it."""

    name: str
    rows: str
    n_rows: int
    scores: tuple[tuple[str, float], ...]


@message
class OutcomeReply:
    """What a party derived while its coordinator was blind."""

    model: bytes  # empty unless asked for
    steps: tuple[tuple[str, str], ...]  # each sum's question, and what it revealed to the parties
    quality: tuple[Judged, ...]
    score: float | None
    claims: tuple[PartyClaim, ...]  # the party's own


@message
class OutcomeAsk(Ask[OutcomeReply]):
    """What came of the job? (Asked by a coordinator that saw none of its sums.)"""

    with_model: bool
    reveals: ClassVar[str] = "the model that all parties have, and its quality over all of them"
    reply_type: ClassVar[type[Any]] = OutcomeReply
