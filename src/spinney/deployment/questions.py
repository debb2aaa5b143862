"""Questions before and after a protocol: whether a party takes part, and how the model leaves.

**Who learns what.** The coordinator learns whether a party takes part, or the rule by which it
refuses, and whether it audits models. Of a comparison of tables it learns which columns stand out
at which party, how far, in which way, and the share of missing values there, and about how many of
a party's ids stand at others. At the end of a training it learns on which terms each party lets the
model leave, and hands it out on the strictest of them. Of parties that audit models it first learns
whether this one passes; if one does not, all are asked to erase what they keep of it, and nobody is
handed it. It sends each party the released model, or, where parties derive the model themselves,
what the last step came to, and each party hardens what it derived; it learns that the party has
kept the model, and its digest. So every party, and the lead, learn the released model. A blind
coordinator then asks one party for it, and learns the model that all parties have, and its quality.

**Who never learns what.** Who is handed the released model does not learn what was closed or
rounded away. But parties that derive a model have seen its sums, and so has a coordinator that is
not blind: for them, hardening takes nothing back.
"""

from typing import Any, ClassVar, Final, Self

import msgspec

from spinney.protocols.release_terms import Hardening
from spinney.protocols.table_fit import IdsElsewhere, Standout
from spinney.protocols.training import PartyClaim
from spinney.protocols.verified.messages import Opened
from spinney.transport.channel import Ask
from spinney.transport.deflated import Deflated
from spinney.transport.messages import message


@message
class ProposalReply:
    """Yes, or the rule by which the party refuses."""

    accepts: bool
    reason: str
    audits: bool = False  # whether the party audits a model before it leaves


@message
class ProposalAsk(Ask[ProposalReply]):
    """Would you take part in this job?"""

    digest: str
    reveals: ClassVar[str] = (
        "whether the party takes part, or the rule by which it refuses; whether it audits models"
    )
    reply_type: ClassVar[type[Any]] = ProposalReply


@message
class TermsReply:
    """A party's terms for models that leave; see `protocols.release_terms.Hardening`."""

    smallest_leaf: int
    threshold_digits: int
    value_digits: int
    exact_counts: bool
    audits: bool = False  # whether the party audits a model before it leaves

    @classmethod
    def of(cls, terms: Hardening, *, audits: bool = False) -> Self:
        """Return terms as they travel."""
        return cls(**msgspec.structs.asdict(terms), audits=audits)

    @property
    def terms(self) -> Hardening:
        """The terms, checked."""
        return Hardening(
            self.smallest_leaf,
            self.threshold_digits,
            self.value_digits,
            exact_counts=self.exact_counts,
        )


@message
class TermsAsk(Ask[TermsReply]):
    """On which terms may the model leave?"""

    reveals: ClassVar[str] = "the party's terms for models that leave, and whether it audits them"
    reply_type: ClassVar[type[Any]] = TermsReply


@message
class AuditReply:
    """What came of the party's audit: it passed, it is still to be done, or it did not pass."""

    waits: bool
    refused: bool
    reason: str  # empty if it passed


@message
class AuditAsk(Ask[AuditReply]):
    """Does the model pass your audit, as it would leave? (Asked of parties that audit.)"""

    digest: str  # of a model that parties derive; empty if the coordinator is blind
    before: tuple[Opened, ...]  # what the last steps came to
    terms: TermsReply
    model: bytes  # the released model, where parties do not derive it; else empty
    reveals: ClassVar[str] = "whether the model passes the party's audit, or why it does not"
    reply_type: ClassVar[type[Any]] = AuditReply


@message
class WithdrawnReply:
    """The party keeps nothing of the model."""


@message
class WithdrawAsk(Ask[WithdrawnReply]):
    """A party's audit did not pass. Will you erase what you keep of the model?"""

    reveals: ClassVar[str] = "nothing"
    reply_type: ClassVar[type[Any]] = WithdrawnReply


RELEASED: Final = "the model to every party and the lead, hardened on the parties' strictest terms"


@message
class ModelReply:
    """The model was kept: the one that the party has, and as it was written down to leave."""

    digest: str
    kept: str  # the digest of the released model


@message
class ModelAsk(Ask[ModelReply]):
    """Will you keep the released model?"""

    model: bytes
    reveals: ClassVar[str] = RELEASED
    reply_type: ClassVar[type[Any]] = ModelReply


@message
class DerivedAsk(Ask[ModelReply]):
    """Which model have you derived, and will you keep it on these terms?

    (A party tells only whether it is this one.)
    """

    digest: str  # empty if the coordinator is blind: then a party tells which it is
    before: tuple[Opened, ...]  # what the last steps came to
    terms: TermsReply  # the strictest of all parties'
    reveals: ClassVar[str] = RELEASED
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

    model: Deflated  # empty unless asked for
    steps: tuple[tuple[str, str], ...]  # each sum's question, and what it revealed to the parties
    quality: tuple[Judged, ...]
    score: float | None
    claims: tuple[PartyClaim, ...]  # the party's own


@message
class OutcomeAsk(Ask[OutcomeReply]):
    """What came of the job? (Asked by a coordinator that saw none of its sums.)"""

    with_model: bool
    reveals: ClassVar[str] = (
        "the model that all parties have, as released, and its quality over all of them"
    )
    reply_type: ClassVar[type[Any]] = OutcomeReply


@message
class FindingsReply:
    """The columns in which the party is unlike the others, and the ids that they share."""

    found: tuple[Standout, ...]
    ids: IdsElsewhere


@message
class FindingsAsk(Ask[FindingsReply]):
    """In which columns is your table unlike the others'? (Asked when tables are compared.)"""

    before: tuple[Opened, ...]  # what the last steps came to
    reveals: ClassVar[str] = (
        "which columns stand out at the party, how far, in which way, and its share of missing "
        "values there; about how many of its ids stand at others"
    )
    reply_type: ClassVar[type[Any]] = FindingsReply
