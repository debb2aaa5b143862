"""The questions of evolved trees, exact and noisy.

**Who learns what.** See `spinney.protocols.genetic_tree`.
"""

from typing import Any, ClassVar

from spinney.errors import ProtocolError, SettingError
from spinney.protocols.accounts.account import ClaimsAsk, JoinReply
from spinney.protocols.accounts.replies import NoisyReply, ShareReply
from spinney.protocols.genetic_tree.settings import GeneticSettings
from spinney.protocols.rows.setup import EdgesAsk, FactsAsk, OwnEdgesAsk, SchemaAsk
from spinney.transport.channel import Ask, Vector
from spinney.transport.messages import message
from spinney.trees.binning import Binning
from spinney.trees.genome import Genes, require_structures
from spinney.typing import Integers


@message
class EvolvingJob:
    """What every question repeats, so that it can be answered on its own."""

    settings: GeneticSettings
    schema_digest: str
    n_parties: int
    binning: Binning | None  # pooled bins; None: each party lays its own

    @property
    def digest(self) -> bytes:
        """A digest of the whole job."""
        bins = b"" if self.binning is None else self.binning.digest()
        return f"{self.schema_digest} {self.settings!r} {self.n_parties}".encode() + bins


@message
class TotalsReply:
    """Numbers that are summed over parties."""

    sums: Integers

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.sums,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "TotalsReply":
        """Return the reply with these integers."""
        return cls(vectors[0])


@message
class DepthAsk(Ask[TotalsReply]):
    """Which depth does your cross-validation choose? (The parties at each depth are counted.)"""

    job: EvolvingJob
    active: tuple[str, ...]
    reveals: ClassVar[str] = "the depth that cross-validation chooses, counted"
    reply_type: ClassVar[type[Any]] = TotalsReply

    @property
    def counted(self) -> tuple[str, ...]:
        """The active parties."""
        return self.active


@message
class StructureReply:
    """The columns that a party's own tree splits on; no thresholds, no leaves."""

    genes: Genes  # (1, n_genes)


@message
class StructureAsk(Ask[StructureReply]):
    """What is the structure of your own tree of this depth?"""

    job: EvolvingJob
    depth: int
    reveals: ClassVar[str] = "which column each node of the party's own tree asks about"
    reply_type: ClassVar[type[Any]] = StructureReply
    is_relayed: ClassVar[bool] = True


@message
class VotesAsk(Ask[TotalsReply]):
    """Vote: score on all rows? keep every party's structure?"""

    job: EvolvingJob
    depth: int
    active: tuple[str, ...]
    reveals: ClassVar[str] = "two votes, on noise and on unique targets, counted"
    reply_type: ClassVar[type[Any]] = TotalsReply

    @property
    def counted(self) -> tuple[str, ...]:
        """The active parties."""
        return self.active


@message
class ScoresAsk(Ask[TotalsReply]):
    """How well do these structures score on your rows? (Scores are weighted by rows and summed.)"""

    job: EvolvingJob
    depth: int
    generation: int
    active: tuple[str, ...]
    all_rows: bool
    genes: Genes
    reveals: ClassVar[str] = "scores of structures, times the number of rows, and that number"
    reply_type: ClassVar[type[Any]] = TotalsReply

    @property
    def counted(self) -> tuple[str, ...]:
        """The active parties."""
        return self.active

    @property
    def step(self) -> int:
        """The generation."""
        return self.generation


@message
class ChoiceAsk(Ask[TotalsReply]):
    """Do you keep your own tree, after choosing the best one? (Parties that do are counted.)"""

    job: EvolvingJob
    depth: int
    all_rows: bool
    genes: Genes
    reveals: ClassVar[str] = "whether the party keeps its own tree, counted"
    reply_type: ClassVar[type[Any]] = TotalsReply


EXACT_ASKS: tuple[type[Ask[Any]], ...] = (
    SchemaAsk,
    FactsAsk,
    EdgesAsk,
    OwnEdgesAsk,
    DepthAsk,
    StructureAsk,
    VotesAsk,
    ScoresAsk,
    ChoiceAsk,
)


EXACT_SUMMED: tuple[type[Ask[Any]], ...] = (
    FactsAsk,
    EdgesAsk,
    OwnEdgesAsk,
    DepthAsk,
    VotesAsk,
    ScoresAsk,
    ChoiceAsk,
)


def require_depth(job: EvolvingJob, depth: int) -> None:
    """Raise unless the job allows the question's depth."""
    if not job.settings.min_depth <= depth <= job.settings.max_depth:
        raise ProtocolError("The job does not allow the question's depth.")


def require_asked(job: EvolvingJob, depth: int, genes: Genes, n_columns: int) -> None:
    """Raise unless the question's structures can be fitted."""
    require_depth(job, depth)
    try:
        require_structures(genes, depth, n_columns)
    except SettingError as error:
        raise ProtocolError(error.public) from None
    if not len(genes):
        raise ProtocolError("The question holds no structures.")


@message
class NoisyJoinAsk(Ask[JoinReply]):
    """Will you take part in this private job, at this price?"""

    job: EvolvingJob
    reveals: ClassVar[str] = "that the party takes part, and that its budget allows it"
    reply_type: ClassVar[type[Any]] = JoinReply


@message
class NoisyScoresAsk(Ask[NoisyReply]):
    """How many of your rows are in each leaf of these structures, by class, with noise?"""

    job: EvolvingJob
    depth: int
    generation: int
    genes: Genes
    reveals: ClassVar[str] = "class counts of leaves of structures, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    @property
    def step(self) -> int:
        """The generation."""
        return self.generation

    def to_ring(self, reply: NoisyReply | ShareReply) -> tuple[Vector, ...]:
        """Return the integers to mask: modulo 2**64, since they may be negative."""
        return (reply.counters.values,) if isinstance(reply, ShareReply) else reply.vectors()


@message
class OwnTreeReply:
    """The party has its own tree."""

    party: str


@message
class OwnTreeAsk(Ask[OwnTreeReply]):
    """Will you choose the tree that scores best for you, without saying which one it is?"""

    job: EvolvingJob
    depth: int
    genes: Genes
    reveals: ClassVar[str] = "that the party has a tree of its own"
    reply_type: ClassVar[type[Any]] = OwnTreeReply


_NOISY = (NoisyJoinAsk, NoisyScoresAsk, OwnTreeAsk, ClaimsAsk)
ASKS: tuple[type[Ask[Any]], ...] = (*EXACT_ASKS, *_NOISY)
SUMMED: tuple[type[Ask[Any]], ...] = (*EXACT_SUMMED, NoisyScoresAsk)
"""The questions whose replies are summed; under `secure_sum` they are masked."""
