"""The questions of evolved trees; `genetic_tree` asks and answers them.

**Who learns what.** See `genetic_tree`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from spinney.errors import ProtocolError, SettingError
from spinney.protocols.genetic_settings import GeneticSettings
from spinney.protocols.setup import EdgesAsk, FactsAsk, SchemaAsk
from spinney.transport.channel import Ask, Vector
from spinney.trees.binning import Binning
from spinney.trees.genome import Genes, require_structures
from spinney.typing import Integers


@dataclass(frozen=True)
class EvolvingJob:
    """What every question repeats, so that it can be answered by itself."""

    settings: GeneticSettings
    schema_digest: str
    n_parties: int
    binning: Binning | None  # pooled bins; None: a party lays its own

    @property
    def digest(self) -> bytes:
        """A digest of all of it."""
        bins = b"" if self.binning is None else self.binning.digest()
        return f"{self.schema_digest} {self.settings!r} {self.n_parties}".encode() + bins


@dataclass(frozen=True)
class TotalsReply:
    """Numbers that are added up over parties."""

    sums: Integers

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.sums,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "TotalsReply":
        """Return the reply with these integers."""
        return cls(vectors[0])


@dataclass(frozen=True)
class DepthAsk(Ask[TotalsReply]):
    """Which depth does your cross-validation choose? One is counted at it."""

    job: EvolvingJob
    active: tuple[str, ...]
    reveals: ClassVar[str] = "the depth that cross-validation chooses, counted"
    reply_type: ClassVar[type[Any]] = TotalsReply


@dataclass(frozen=True)
class StructureReply:
    """The columns that a party's own tree asks about; no thresholds, no leaves."""

    genes: Genes  # (1, n_genes)


@dataclass(frozen=True)
class StructureAsk(Ask[StructureReply]):
    """Which structure has your own tree of this depth?"""

    job: EvolvingJob
    depth: int
    reveals: ClassVar[str] = "which column each node of the party's own tree asks about"
    reply_type: ClassVar[type[Any]] = StructureReply


@dataclass(frozen=True)
class VotesAsk(Ask[TotalsReply]):
    """Should all rows judge; should all parties' structures live on? Votes are counted."""

    job: EvolvingJob
    depth: int
    active: tuple[str, ...]
    reveals: ClassVar[str] = "two votes, on noise and on unique targets, counted"
    reply_type: ClassVar[type[Any]] = TotalsReply


@dataclass(frozen=True)
class ScoresAsk(Ask[TotalsReply]):
    """How well do these structures do on your rows? Scores are weighed by rows and added up."""

    job: EvolvingJob
    depth: int
    generation: int
    active: tuple[str, ...]
    all_rows: bool
    genes: Genes
    reveals: ClassVar[str] = "scores of structures, times the number of rows, and that number"
    reply_type: ClassVar[type[Any]] = TotalsReply


@dataclass(frozen=True)
class ChoiceAsk(Ask[TotalsReply]):
    """Take the tree that does best for you; how many parties kept the one they had?"""

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
    DepthAsk,
    StructureAsk,
    VotesAsk,
    ScoresAsk,
    ChoiceAsk,
)
EXACT_SUMMED: tuple[type[Ask[Any]], ...] = (
    FactsAsk,
    EdgesAsk,
    DepthAsk,
    VotesAsk,
    ScoresAsk,
    ChoiceAsk,
)


def require_depth(job: EvolvingJob, depth: int) -> None:
    """Raise unless a question is about a depth that its job allows."""
    if not job.settings.min_depth <= depth <= job.settings.max_depth:
        raise ProtocolError("The question's depth is not one that the job allows.")


def require_asked(job: EvolvingJob, depth: int, genes: Genes, n_columns: int) -> None:
    """Raise unless a question is about structures that can be fitted."""
    require_depth(job, depth)
    try:
        require_structures(genes, depth, n_columns)
    except SettingError as error:
        raise ProtocolError(error.public) from None
    if not len(genes):
        raise ProtocolError("The question holds no structures.")
