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
generations. Where a part of the parties is asked, each judges by more of its rows, as many times as
the others are more. A late joiner's structure is judged by all who are active, not by itself alone.

**Who learns what.** The coordinator learns each party's schema and each active party's structure;
of depths, votes and scores only sums over the active parties, weighed by rows; and how many parties
keep their own tree. With `binning="pooled"` it also learns what `horizontal_forest` says of facts
and edges: summed counts, and the single cells at which bins end. Parties learn all structures.
**Who never learns what.** Nobody but its party sees thresholds, leaves, a score, which tree it
keeps, or how well that does. Masks hide an active party only among the active: of a sum over two,
each knows the other's part. Without `secure_sum` the channel adds up replies that it could read.
Structures and sums of scores are exact functions of the rows: nothing is differentially private.

With `privacy` structures evolve from noisy counts instead: see `noisy_evolution` and `paying`.

**Rounds and bytes.** Schemas 1, bins up to 4 ("pooled"), depths 1, structures 1 and 1 more for
every generation with a late joiner, votes 1 (regression), scores G, choosing 1. A question about
scores carries 2 bytes a gene, P to 2 P structures of 2^d - 1 genes; a reply 8 bytes a structure.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spinney.errors import PolicyError, ProtocolError
from spinney.privacy.ledger import Ledger
from spinney.protocols.evolving import (
    BREED,
    LEAST_ACTIVE,
    Search,
    require_learnable,
    require_several,
    skeleton,
)
from spinney.protocols.facts import binned
from spinney.protocols.fitness import weighed
from spinney.protocols.genetic_asks import (
    EXACT_ASKS,
    EXACT_SUMMED,
    ChoiceAsk,
    DepthAsk,
    EvolvingJob,
    ScoresAsk,
    StructureAsk,
    StructureReply,
    TotalsReply,
    VotesAsk,
    require_asked,
    require_depth,
)
from spinney.protocols.genetic_settings import GeneticSettings
from spinney.protocols.growing import require_bins
from spinney.protocols.home import Home, HomeTree, PersonalTree
from spinney.protocols.model import ForestModel
from spinney.protocols.noisy_evolution import (
    NoisyCounting,
    NoisyJoinAsk,
    NoisyScoresAsk,
    NoisySearch,
    OwnTreeAsk,
    OwnTreeReply,
)
from spinney.protocols.own_bins import category_bins_of, own_binning, pooled_binning
from spinney.protocols.paying import ClaimsAsk, Purse, claims_of
from spinney.protocols.setup import (
    EdgesAsk,
    FactsAsk,
    SchemaAsk,
    agreed_schema,
    answer_setup,
    require_schema,
)
from spinney.protocols.sizes import SizePurse
from spinney.protocols.training import Phases, Training
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.genome import Genes
from spinney.trees.structures import FitTable
from spinney.trees.threads import thread_count
from spinney.typing import Integers, Progress, silent

__all__ = ["ASKS", "NAME", "SUMMED", "Evolved", "EvolvingJob", "Party", "Settings", "train"]

NAME = "genetic_tree"
_NOISY = (NoisyJoinAsk, NoisyScoresAsk, OwnTreeAsk, ClaimsAsk)
ASKS: tuple[type[Ask[Any]], ...] = (*EXACT_ASKS, *_NOISY)
SUMMED: tuple[type[Ask[Any]], ...] = (*EXACT_SUMMED, NoisyScoresAsk)
"""The questions whose replies are added up; under `secure_sum` they are masked."""
Settings = GeneticSettings


# --- a party -------------------------------------------------------------------------------------


class Party:
    """One organisation's side. What it keeps between questions only saves time.

    Its `personal` and `home` trees stay here: no question asks for them. With `only_noise`, as in
    a private job, it answers nothing exactly.
    """

    def __init__(
        self,
        table: Table,
        name: str,
        *,
        n_jobs: int | None = None,
        ledger: Ledger | None = None,
        data: str | None = None,
        only_noise: bool = False,
    ) -> None:
        self._table = table
        self.name = name
        self._only_noise = only_noise
        self._n_threads = thread_count(n_jobs)
        self._purse = None if ledger is None else Purse(ledger, table, data)
        self._sizes = SizePurse(table, self._purse)
        self._noisy: NoisyCounting | None = None
        self._home: tuple[bytes, Home] | None = None
        self.personal: PersonalTree | None = None
        self.chosen_in: EvolvingJob | None = None

    @property
    def schema(self) -> Schema:
        """The schema by which the party reads its table."""
        return self._table.schema

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case NoisyJoinAsk() | NoisyScoresAsk() | OwnTreeAsk() | ClaimsAsk():
                return self._answer_noisily(ask)
            case FactsAsk() | EdgesAsk() if self._only_noise:
                raise _not_exactly()
            case SchemaAsk() | FactsAsk() | EdgesAsk():
                return answer_setup(ask, self._table, self._n_threads)
            case StructureAsk():  # lines 12, 30
                return StructureReply(self._exactly(ask.job).structure(ask.depth)[None])
        return TotalsReply(self._sums(ask))

    def _sums(self, ask: Ask[Any]) -> Integers:
        match ask:
            case DepthAsk():  # line 6
                return self._depth(ask)
            case VotesAsk():  # lines 16, 17
                return self._votes(ask)
            case ScoresAsk():  # lines 28, 34
                return self._scores(ask)
            case ChoiceAsk():  # lines 47, 48
                return self._choose(ask)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def _answer_noisily(self, ask: NoisyJoinAsk | NoisyScoresAsk | OwnTreeAsk | ClaimsAsk) -> Any:
        if self._purse is None:
            raise PolicyError(
                f"{type(ask).__name__} belongs to a private job, and this party has no ledger to "
                "pay from. Give it one."
            )
        if isinstance(ask, ClaimsAsk):
            return self._purse.claims(ask)
        if self._noisy is None:
            self._noisy = NoisyCounting(self._table, self._purse)
        if isinstance(ask, NoisyJoinAsk):
            return self._noisy.join(ask)
        self._require_structures(ask.job, ask.depth, ask.genes)
        if isinstance(ask, NoisyScoresAsk):
            return self._noisy.answer(ask)
        self._noisy.note_own_tree(ask.job)
        self._take(ask.job, ask.depth, ask.genes, all_rows=False)
        return OwnTreeReply(self.name)

    def _exactly(self, job: EvolvingJob) -> Home:
        """Return the rows to answer a question exactly, which a private job's are not."""
        if self._only_noise or job.settings.privacy is not None:
            raise _not_exactly()
        return self.home(job)

    def _is_asked(self, ask: DepthAsk | VotesAsk | ScoresAsk) -> bool:
        """Tell whether a sum is to hold this party's numbers; refuse one that holds no others'."""
        if ask.is_masked and len(set(ask.active)) < LEAST_ACTIVE:
            raise ProtocolError(
                "A sum over one active party is that party's own numbers, whatever the masks. "
                "Nothing was released."
            )
        return self.name in ask.active

    def home(self, job: EvolvingJob) -> Home:
        """Return the party's rows as this job wants them; for its own eyes."""
        if self._home is None or self._home[0] != job.digest:
            require_schema(self._table, job.schema_digest)
            schema, threads = self._table.schema, self._n_threads
            binning = job.binning or own_binning(self._table, job.settings.max_bins)
            require_bins(binning, schema)
            table = binned(self._table, binning, n_threads=threads, target_bits=TARGET_BITS)
            fit = FitTable.of(table, binning, len(schema.label.classes or ()))
            self._home = (job.digest, Home(fit, binning, table.keys, job.settings))
        return self._home[1]

    def home_tree(self, job: EvolvingJob) -> HomeTree:
        """Return the tree this party grows alone."""
        return self.home(job).home_tree(self._n_threads)

    def _depth(self, ask: DepthAsk) -> Integers:
        settings = ask.job.settings
        votes = np.zeros(settings.max_depth - settings.min_depth + 1, np.int64)
        if self._is_asked(ask):
            votes[self._exactly(ask.job).best_depth - settings.min_depth] = 1
        return votes

    def _votes(self, ask: VotesAsk) -> Integers:
        if not self._is_asked(ask):
            return np.zeros(3, np.int64)
        home = self._exactly(ask.job)
        require_depth(ask.job, ask.depth)
        return np.array([1, home.vote_for_all_rows(ask.depth), home.vote_for_elitism()], np.int64)

    def _scores(self, ask: ScoresAsk) -> Integers:
        sums = np.zeros(len(ask.genes) + 1, np.int64)
        if not self._is_asked(ask):
            return sums
        self._require_structures(ask.job, ask.depth, ask.genes)
        home = self._exactly(ask.job)
        weight = self._sizes.weight(ask.job.settings, ask.job.n_parties)  # line 32
        scores = home.judged(
            ask.genes,
            ask.depth,
            ask.generation,
            all_rows=ask.all_rows,
            n_threads=self._n_threads,
        )
        sums[:-1] = weighed(scores, weight)
        sums[-1] = weight
        return sums

    def _choose(self, ask: ChoiceAsk) -> Integers:
        self._require_structures(ask.job, ask.depth, ask.genes)
        self._exactly(ask.job)
        chosen = self._take(ask.job, ask.depth, ask.genes, all_rows=ask.all_rows)
        return np.array([1, chosen.is_home], np.int64)

    def _take(self, job: EvolvingJob, depth: int, genes: Genes, *, all_rows: bool) -> PersonalTree:
        """Fit the structures to own rows, and keep the best."""
        self.personal = self.home(job).personal_tree(
            genes, depth, all_rows=all_rows, n_threads=self._n_threads
        )
        self.chosen_in = job
        return self.personal

    def _require_structures(self, job: EvolvingJob, depth: int, genes: Genes) -> None:
        require_asked(job, depth, genes, len(self._table.schema.columns))


# --- the coordinator -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Evolved(Training):
    """What evolution leaves behind at the coordinator.

    Its model holds the last population, best first: structures that nobody has fitted.
    """

    job: EvolvingJob
    depth: int
    genes: Genes
    all_rows: bool
    elitism: bool
    n_kept_home: int | None  # None: nobody is told


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,  # noqa: ARG001  all protocols take it; parties do the work here
    progress: Progress = silent,
) -> Evolved:
    """Evolve structures with the parties on the channel; each party picks its own tree."""
    phases = Phases()
    with phases.phase("agreeing"):
        schema = agreed_schema(channel)
        require_learnable(schema)
        require_several(channel, settings)
        progress("binning", 0, 0)
        is_pooled = settings.binning == "pooled"
        binning = pooled_binning(channel, schema, settings) if is_pooled else None
        job = EvolvingJob(settings, schema.digest(), len(channel.parties), binning)
    with phases.phase("seeding"):
        progress("choosing a depth", 0, 0)
        search: Search | NoisySearch
        if settings.privacy:
            search = NoisySearch(channel, job, schema, BREED)
        else:
            search = Search.begun(channel, job, schema)
    with phases.phase("evolving"):
        for generation in range(settings.n_generations):  # line 26
            search.generation(generation)
            progress(f"evolving, best {search.told}", generation + 1, settings.n_generations)
    with phases.phase("choosing"):
        progress("choosing", 0, 0)
        n_kept = search.choose()  # lines 45 to 49
    claims = claims_of(channel, settings.privacy) if settings.privacy else ()
    bins = binning.bin_of_category if binning else category_bins_of(schema, settings.max_bins)
    shape = skeleton(schema, bins, search.population.genes, search.depth)
    return Evolved(
        model=ForestModel(NAME, schema, shape, bins),
        parties=channel.parties,
        rounds=tuple(channel.rounds),
        seconds=phases.seconds,
        quality={},
        score=None,
        settings=asdict(settings),
        claims=claims,
        history=tuple(search.best),
        job=job,
        depth=search.depth,
        genes=search.population.genes,
        all_rows=search.all_rows,
        elitism=search.elitism,
        n_kept_home=n_kept,
    )


# --- helpers -------------------------------------------------------------------------------------


def _not_exactly() -> PolicyError:
    return PolicyError("A private job asks for noisy counts only. Nothing was released.")
