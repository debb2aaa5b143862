"""Personal trees from a population of structures that parties evolve together (S4).

*FedGA-Tree: Federated Decision Tree using Genetic Algorithm*, Algorithm 1. A structure says which
column each node of a tree asks about. Parties fit structures to their own rows; the coordinator
breeds those that do well over all parties; in the end each party picks the one that does best for
it, and keeps thresholds and leaves to itself.

| paper | here |
|---|---|
| client, server | party, coordinator |
| P, G, c, r, r_l, s, m_1, m_2, K | see `GeneticSettings` |
| d, d^i | `depth`, and the depth a party's cross-validation chooses |
| T_d^i | `Home.structure`: CART's tree on all rows of a party, columns only |
| n^i | a party's weight: its rows, with noise if `size_epsilon` is given |
| vote_1, vote_2 | `all_rows`, `elitism`; they are summed |
| f_t | the mean score of a structure, weighed by rows (`channel.sum`) |
| active clients | `active`: the parties named in a question; the others answer zeros |

Two changes make the scores mean what they say (`validation="rotating"`; "fixed" is the paper's
way): every generation is judged by other rows, survivors again, and by the mean of their scores;
and structures that read alike live once. A single division of rows is learnt by heart within few
generations. A late joiner's structure is judged by all who are active, not by itself alone.

**Who learns what.** The coordinator learns each active party's structure; of depths, votes and
scores only sums over the active parties, weighed by rows. Parties learn all structures.
**Who never learns what.** Nobody but its party sees thresholds, leaves, a score, which tree it
keeps, or how well that does. Without `secure_sum` the channel adds up replies that it could read.
Structures and sums of scores are exact functions of the rows: nothing is differentially private.

**Rounds and bytes.** Schemas 1, bins up to 4 ("pooled"), depths 1, structures 1 and 1 more for
every generation with a late joiner, votes 1 (regression), scores G, choosing 1. A question about
scores carries 2 bytes a gene, P to 2 P structures of 2^d - 1 genes; a reply 8 bytes a structure.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np

from spinney import seeds
from spinney.errors import PartyLostError, ProtocolError, SettingError, TableError
from spinney.privacy.ledger import Ledger
from spinney.protocols.facts import binned, require_few_classes, target_range
from spinney.protocols.fitness import mean_scores, shown, weighed
from spinney.protocols.genetic_settings import GeneticSettings
from spinney.protocols.growing import require_bins
from spinney.protocols.home import Home, HomeTree, PersonalTree
from spinney.protocols.own_bins import own_binning, pooled_binning
from spinney.protocols.setup import (
    EdgesAsk,
    FactsAsk,
    SchemaAsk,
    agreed_schema,
    answer_setup,
    require_schema,
)
from spinney.protocols.sizes import SizePurse
from spinney.protocols.training import Phases
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel, Round, Vector
from spinney.trees.binning import Binning
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.evolution import Breeding, Population
from spinney.trees.genome import MAX_COLUMNS, Genes, initial, require_structures
from spinney.trees.structures import FitTable
from spinney.trees.threads import thread_count
from spinney.typing import Floats, Integers, Progress, silent

NAME = "genetic_tree"
Settings = GeneticSettings
_ACTIVE, _BREED = 10, 11  # streams of the job's seed


# --- messages ------------------------------------------------------------------------------------


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
class SumsReply:
    """Numbers that are added up over parties."""

    sums: Integers

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.sums,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "SumsReply":
        """Return the reply with these integers."""
        return cls(vectors[0])


@dataclass(frozen=True)
class DepthAsk(Ask[SumsReply]):
    """Which depth does your cross-validation choose? One is counted at it."""

    job: EvolvingJob
    active: tuple[str, ...]
    reveals: ClassVar[str] = "the depth that cross-validation chooses, counted"
    reply_type: ClassVar[type[Any]] = SumsReply


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
class VotesAsk(Ask[SumsReply]):
    """Should all rows judge; should all parties' structures live on? Votes are counted."""

    job: EvolvingJob
    depth: int
    active: tuple[str, ...]
    reveals: ClassVar[str] = "two votes, on noise and on unique targets, counted"
    reply_type: ClassVar[type[Any]] = SumsReply


@dataclass(frozen=True)
class ScoresAsk(Ask[SumsReply]):
    """How well do these structures do on your rows? Scores are weighed by rows and added up."""

    job: EvolvingJob
    depth: int
    generation: int
    active: tuple[str, ...]
    all_rows: bool
    genes: Genes
    reveals: ClassVar[str] = "scores of structures, times the number of rows, and that number"
    reply_type: ClassVar[type[Any]] = SumsReply


@dataclass(frozen=True)
class ChoiceAsk(Ask[SumsReply]):
    """Take the tree that does best for you; how many parties kept the one they had?"""

    job: EvolvingJob
    depth: int
    all_rows: bool
    genes: Genes
    reveals: ClassVar[str] = "whether the party keeps its own tree, counted"
    reply_type: ClassVar[type[Any]] = SumsReply


SUMMED: tuple[type[Ask[Any]], ...] = (FactsAsk, EdgesAsk, DepthAsk, VotesAsk, ScoresAsk, ChoiceAsk)
"""The questions whose replies are added up; under `secure_sum` they are masked."""


# --- a party -------------------------------------------------------------------------------------


class Party:
    """One organisation's side. What it keeps between questions only saves time.

    Its `personal` and `home` trees stay here: no question asks for them.
    """

    def __init__(
        self,
        table: Table,
        name: str,
        *,
        n_jobs: int | None = None,
        ledger: Ledger | None = None,
        data: str | None = None,
    ) -> None:
        self._table = table
        self._name = name
        self._n_threads = thread_count(n_jobs)
        self._sizes = SizePurse(table, ledger, data)
        self._home: tuple[bytes, Home] | None = None
        self.personal: PersonalTree | None = None

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk() | FactsAsk() | EdgesAsk():
                return answer_setup(ask, self._table, self._n_threads)
            case DepthAsk():  # line 6
                return SumsReply(self._depth(ask))
            case StructureAsk():  # lines 12, 30
                return StructureReply(self.home(ask.job).structure(ask.depth)[None])
            case VotesAsk():  # lines 16, 17
                return SumsReply(self._votes(ask))
            case ScoresAsk():  # lines 28, 34
                return SumsReply(self._scores(ask))
            case ChoiceAsk():  # lines 47, 48
                return SumsReply(self._choose(ask))
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def home(self, job: EvolvingJob) -> Home:
        """Return the party's rows as this job wants them."""
        if self._home is None or self._home[0] != job.digest:
            require_schema(self._table, job.schema_digest)
            schema, threads = self._table.schema, self._n_threads
            binning = job.binning or own_binning(self._table, job.settings.max_bins)
            require_bins(binning, schema)
            table = binned(self._table, binning, n_threads=threads)
            fit = FitTable.of(table, binning, len(schema.label.classes or ()))
            self._home = (job.digest, Home(fit, binning, table.keys, job.settings))
        return self._home[1]

    def home_tree(self, job: EvolvingJob) -> HomeTree:
        """Return the tree this party grows alone."""
        return self.home(job).home_tree(self._n_threads)

    def _depth(self, ask: DepthAsk) -> Integers:
        settings = ask.job.settings
        votes = np.zeros(settings.max_depth - settings.min_depth + 1, np.int64)
        if self._name in ask.active:
            votes[self.home(ask.job).best_depth - settings.min_depth] = 1
        return votes

    def _votes(self, ask: VotesAsk) -> Integers:
        if self._name not in ask.active:
            return np.zeros(3, np.int64)
        home = self.home(ask.job)
        self._require_depth(ask.job, ask.depth)
        return np.array([1, home.vote_for_all_rows(ask.depth), home.vote_for_elitism()], np.int64)

    def _scores(self, ask: ScoresAsk) -> Integers:
        sums = np.zeros(len(ask.genes) + 1, np.int64)
        if self._name not in ask.active:
            return sums
        self._require_structures(ask.job, ask.depth, ask.genes)
        home = self.home(ask.job)
        weight = self._sizes.weight(ask.job.settings, ask.job.n_parties)  # line 32
        rows = home.rows_for(ask.generation, all_rows=ask.all_rows)
        sums[:-1] = weighed(home.scores(ask.genes, ask.depth, rows, self._n_threads), weight)
        sums[-1] = weight
        return sums

    def _choose(self, ask: ChoiceAsk) -> Integers:
        self._require_structures(ask.job, ask.depth, ask.genes)
        self.personal = self.home(ask.job).personal_tree(
            ask.genes, ask.depth, all_rows=ask.all_rows, n_threads=self._n_threads
        )
        return np.array([1, self.personal.is_home], np.int64)

    def _require_depth(self, job: EvolvingJob, depth: int) -> None:
        if not job.settings.min_depth <= depth <= job.settings.max_depth:
            raise ProtocolError("The question's depth is not one that the job allows.")

    def _require_structures(self, job: EvolvingJob, depth: int, genes: Genes) -> None:
        self._require_depth(job, depth)
        try:
            require_structures(genes, depth, len(self._table.schema.columns))
        except SettingError as error:
            raise ProtocolError(error.public) from None
        if not len(genes):
            raise ProtocolError("The question holds no structures.")


# --- the coordinator -----------------------------------------------------------------------------


@dataclass
class Evolved:
    """What evolution leaves behind: structures, and the log of how they came about."""

    schema: Schema
    job: EvolvingJob
    depth: int
    genes: Genes  # the last population, best first
    scores: Floats
    all_rows: bool
    elitism: bool
    n_kept_home: int
    parties: tuple[str, ...]
    rounds: tuple[Round, ...]
    seconds: dict[str, float]
    best: list[float] = field(default_factory=list)  # by generation, as people know the metric
    settings: dict[str, object] = field(default_factory=dict)


def train(channel: Channel, settings: Settings, *, progress: Progress = silent) -> Evolved:
    """Evolve structures with the parties on the channel; each party picks its own tree."""
    phases = Phases()
    with phases.phase("agreeing"):
        schema = agreed_schema(channel)
        _require_learnable(schema)
        progress("binning", 0, 0)
        binning = pooled_binning(channel, schema, settings) if _is_pooled(settings) else None
        job = EvolvingJob(settings, schema.digest(), len(channel.parties), binning)
    with phases.phase("seeding"):
        progress("choosing a depth", 0, 0)
        search = _Search.begun(channel, job, schema)
    with phases.phase("evolving"):
        for generation in range(settings.n_generations):  # line 26
            search.generation(generation)
            progress(f"evolving, best {search.told}", generation + 1, settings.n_generations)
    with phases.phase("choosing"):
        progress("choosing", 0, 0)
        choice = ChoiceAsk(job, search.depth, search.all_rows, search.population.genes)
        n_kept = int(channel.sum(choice, quorum=1).sums[1])  # lines 45 to 49
    return Evolved(
        schema,
        job,
        search.depth,
        search.population.genes,
        search.population.score,
        search.all_rows,
        search.elitism,
        n_kept,
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        search.best,
        asdict(settings),
    )


class _Search:
    """The coordinator's notebook."""

    def __init__(
        self, channel: Channel, job: EvolvingJob, schema: Schema, depth: int, joined: set[str]
    ) -> None:
        settings = job.settings
        self._channel = channel
        self._job = job
        self._step = _target_step(schema)
        self._joined = joined
        self._random = seeds.generator(seeds.derived(settings.seed, _BREED))
        self.depth = depth
        self.all_rows = False
        self.elitism = False
        self.best: list[float] = []
        self._coming = np.zeros((0, (1 << depth) - 1), np.int16)
        breeding = Breeding(
            len(schema.columns),
            depth,
            settings.n_survivors,
            settings.tournament_size,
            settings.flip_ratio,
            settings.swap_ratio,
        )
        self.population = Population(breeding, distinct=settings.validation == "rotating")

    @classmethod
    def begun(cls, channel: Channel, job: EvolvingJob, schema: Schema) -> "_Search":
        """Choose the depth, hold the votes and seed the population (lines 3 to 25)."""
        settings = job.settings
        first = _active(channel, settings, 0)
        counted = channel.sum(DepthAsk(job, first), quorum=1).sums
        if not counted.sum():
            raise _nobody(first)
        depth = settings.min_depth + _median(counted)  # line 10
        search = cls(channel, job, schema, depth, set())
        present = _active(channel, settings, 1)
        own = search._structures(present)  # line 12
        if settings.task == "regression":
            votes = channel.sum(VotesAsk(job, depth, present), quorum=1).sums
            search.all_rows = bool(2 * votes[1] > votes[0])  # line 23
            search.elitism = bool(2 * votes[2] > votes[0])  # line 24
        n_random = max(settings.n_survivors - len(own), 0)
        n_columns = len(schema.columns)
        drawn = initial(search._random, n_random, depth, n_columns, settings.leaf_ratio)
        search._coming = np.concatenate([drawn, own])  # line 21
        if search.elitism:
            search.population.protect(own)
        return search

    @property
    def told(self) -> str:
        """The best score, in words."""
        return f"{self._job.settings.metric} {self.best[-1]:.4g}" if self.best else ""

    def generation(self, number: int) -> None:
        """Have the coming structures judged, let the best survive and breed (lines 27 to 42)."""
        settings, population = self._job.settings, self.population
        active = _active(self._channel, settings, number + 1)
        late = self._structures([name for name in active if name not in self._joined])  # line 30
        coming = np.concatenate([self._coming, late])  # line 38
        if self.elitism:
            population.protect(late)
        again = settings.validation == "rotating" and not self.all_rows
        survivors = population.genes[: len(population.genes) if again else 0]
        asked = np.concatenate([coming, survivors])
        ask = ScoresAsk(self._job, self.depth, number, active, self.all_rows, asked)
        sums = self._channel.sum(ask, quorum=1).sums
        if sums.size != len(asked) + 1:
            raise ProtocolError("A party's scores are not those of the structures asked about.")
        if sums[-1] <= 0:
            raise _nobody(active)
        scores = mean_scores(sums[:-1], int(sums[-1]))  # line 37
        if len(survivors):
            population.judge_again(scores[len(coming) :])
        population.update(coming, scores[: len(coming)])  # line 39
        metric = settings.metric or ""
        self.best.append(shown(metric, float(population.score[0]), self._step))
        self._coming = population.offspring(self._random)  # lines 41, 42

    def _structures(self, names: Sequence[str]) -> Genes:
        """Return the structures of parties that are here for the first time, by name."""
        nothing = np.zeros((0, (1 << self.depth) - 1), np.int16)
        if not names:
            return nothing
        replies = self._channel.ask(StructureAsk(self._job, self.depth), to=names, quorum=0)
        self._joined |= set(replies)
        found = [replies[name].genes for name in sorted(replies)]
        for genes in found:
            require_structures(genes, self.depth, self.population.breeding.n_columns)
        return np.concatenate([nothing, *found])


# --- helpers -------------------------------------------------------------------------------------


def _is_pooled(settings: Settings) -> bool:
    return settings.binning == "pooled"


def _active(channel: Channel, settings: Settings, turn: int) -> tuple[str, ...]:
    """Draw the parties that are asked this time; by name, so that no order matters."""
    names = sorted(channel.parties)
    n = settings.n_active(len(names))
    if n == len(names):
        return tuple(names)
    random = seeds.generator(seeds.derived(settings.seed, _ACTIVE, turn))
    return tuple(names[i] for i in np.sort(random.permutation(len(names))[:n]))


def _median(counted: Integers) -> int:
    """Return the middle one of counted values; of two, the lower."""
    ends = np.cumsum(counted)
    return int(np.searchsorted(ends, (ends[-1] + 1) // 2))


def _nobody(active: Sequence[str]) -> PartyLostError:
    return PartyLostError(
        f"None of the parties asked answered: {', '.join(active)}. Start the job again when they "
        "are there, or set participation higher so that more of them are asked."
    )


def _target_step(schema: Schema) -> float:
    """Return a target's units in one fixed-point unit."""
    if schema.label.classes is not None:
        return 1.0
    low, high = target_range(schema.label)
    return (high - low) / (2**TARGET_BITS - 1)


def _require_learnable(schema: Schema) -> None:
    """Raise unless there is something to learn, in as many columns as genes can name."""
    require_few_classes(schema.label)
    if schema.label.classes is not None and len(schema.label.classes) < 2:
        raise TableError(
            f"The label {schema.label.name!r} has one class only over all parties. A classifier "
            "needs rows of at least 2 classes; check the label column and its filter."
        )
    if not 1 <= len(schema.columns) <= MAX_COLUMNS:
        raise SettingError(f"Evolved trees need between 1 and {MAX_COLUMNS} columns.")
