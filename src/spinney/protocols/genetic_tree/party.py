"""A party's side of evolved trees: it fits structures locally and answers with sums."""

import logging
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np

from spinney.errors import PolicyError, ProtocolError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.release import Charge, Exact
from spinney.privacy.scopes import ALL_ROWS, Budget, Disclosure, Protection, Spend
from spinney.protocols.accounts.account import ClaimsAsk, PartyAccount
from spinney.protocols.genetic_tree.bins import lay_own_bins
from spinney.protocols.genetic_tree.coordinator import LEAST_ACTIVE
from spinney.protocols.genetic_tree.fitness import MAX_ROWS, weigh_scores
from spinney.protocols.genetic_tree.local_fit import Home, HomeTree, PersonalTree
from spinney.protocols.genetic_tree.messages import (
    ChoiceAsk,
    DepthAsk,
    EvolvingJob,
    NoisyJoinAsk,
    NoisyScoresAsk,
    OwnTreeAsk,
    OwnTreeReply,
    ScoresAsk,
    StructureAsk,
    StructureReply,
    TotalsReply,
    VotesAsk,
    require_asked,
    require_depth,
)
from spinney.protocols.genetic_tree.noisy import NoisyCounting
from spinney.protocols.genetic_tree.settings import NAME, GeneticSettings
from spinney.protocols.rows.facts import bin_table
from spinney.protocols.rows.levels import require_bins
from spinney.protocols.rows.setup import (
    EdgesAsk,
    FactsAsk,
    OwnEdgesAsk,
    SchemaAsk,
    answer_setup,
    require_schema,
)
from spinney.protocols.settings import PrivacySettings, fraction_of
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Ask
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.genome import Genes
from spinney.trees.structures import FitTable
from spinney.trees.threads import thread_count
from spinney.typing import Integers

_LOG: Final = logging.getLogger("spinney.party")  # stays at the party
_SCORES = Disclosure(
    "scores of structures, depths, votes and the party's own structure",
    Protection.UNPROTECTED,
    "exact functions of the rows; no noise is added to them",
    tuple(Unit),
)


@dataclass(frozen=True)
class SizePlan:
    """The price of a party's number of rows."""

    called: ClassVar[str] = "<class 'spinney.protocols.sizes.SizePlan'>"

    job: str
    epsilon: str
    n_parties: int

    @property
    def privacy(self) -> PrivacySettings:
        """The privacy of the job: its budget and mechanism."""
        return PrivacySettings(job=self.job, epsilon=self.epsilon)

    @property
    def mechanism(self) -> DiscreteLaplace:
        """The noise: one record more or less changes the number by one."""
        return DiscreteLaplace(fraction_of(self.epsilon, "size_epsilon"), Fraction(1))

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        budget = Budget.pure(fraction_of(self.epsilon, "size_epsilon"))
        return JobTerms(self.job, data, self.n_parties, 1, (budget,))

    def planned(self) -> list[Spend]:
        """Return everything the job may spend."""
        return [Spend("the number of rows", self.mechanism, (ALL_ROWS,))]


class NoisySize:
    """A party's number of rows, which weights its scores."""

    def __init__(self, table: Table, account: PartyAccount | None) -> None:
        self._table = table
        self._account = account
        self._known: dict[SizePlan, int] = {}  # a cache of what the ledger has stored

    def weight(self, settings: GeneticSettings, n_parties: int) -> int:
        """Return the number of rows, with noise drawn once if the job asks for it; at least 1."""
        n_rows = self._table.n_rows
        if settings.size_epsilon is not None:
            plan = SizePlan(settings.job, settings.size_epsilon, n_parties)
            if plan not in self._known:
                self._known[plan] = self._noised(plan)
            n_rows = self._known[plan]
        return min(max(n_rows, 1), MAX_ROWS)

    def _noised(self, plan: SizePlan) -> int:
        if self._account is None:
            raise PolicyError(
                "size_epsilon asks for noise, and this party has no ledger to pay from. "
                "Give it one."
            )

        def draw(charges: tuple[Charge, ...]) -> bytes:
            exact = Exact(np.array([self._table.n_rows], np.int64))
            return plan.mechanism.release(exact, charges[0]).values.tobytes()

        self._account.join(plan)
        stored = self._account.pay(plan, 0, plan, plan.planned(), draw, disclosures=[_SCORES])
        return int(np.frombuffer(stored, np.int64)[0])


class Party:
    """One organisation's side. What it keeps between questions is only a cache.

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
        is_masked: bool = False,
    ) -> None:
        self._table = table
        self.name = name
        self._only_noise = only_noise
        self._is_masked = is_masked
        self._n_threads = thread_count(n_jobs)
        self._account = None if ledger is None else PartyAccount(ledger, table, data)
        self._sizes = NoisySize(table, self._account)
        self._noisy: NoisyCounting | None = None
        self._home: tuple[bytes, Home] | None = None
        self.personal: PersonalTree | None = None
        self.chosen_in: EvolvingJob | None = None

    @property
    def schema(self) -> Schema:
        """The schema of the party's table."""
        return self._table.schema

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case NoisyJoinAsk() | NoisyScoresAsk() | OwnTreeAsk() | ClaimsAsk():
                return self._answer_noisily(ask)
            case FactsAsk() | EdgesAsk() | OwnEdgesAsk() if self._only_noise:
                raise _not_exactly()
            case SchemaAsk() | FactsAsk() | EdgesAsk() | OwnEdgesAsk():
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
        if self._account is None:
            raise PolicyError(
                f"{type(ask).__name__} belongs to a private job, and this party has no ledger to "
                "pay from. Give it one."
            )
        if isinstance(ask, ClaimsAsk):
            return self._account.claims(ask)
        if self._noisy is None:
            self._noisy = NoisyCounting(self._table, self._account)
        if isinstance(ask, NoisyJoinAsk):
            return self._noisy.join(ask)
        self._require_structures(ask.job, ask.depth, ask.genes)
        if isinstance(ask, NoisyScoresAsk):
            return self._noisy.answer(ask)
        self._noisy.note_own_tree(ask.job)
        n_folds = ask.job.settings.n_folds
        if self._table.n_rows >= n_folds:
            self._take(ask.job, ask.depth, ask.genes, all_rows=False)
        else:  # to refuse would tell others how few rows there are
            _LOG.warning("This party has no tree: it has fewer rows than the %d folds.", n_folds)
        return OwnTreeReply(self.name)

    def _exactly(self, job: EvolvingJob) -> Home:
        """Return the rows for an exact answer; raise if the job is private."""
        if self._only_noise or job.settings.privacy is not None:
            raise _not_exactly()
        return self.home(job)

    def _is_asked(self, ask: DepthAsk | VotesAsk | ScoresAsk) -> bool:
        """Return whether a sum includes this party's numbers; raise if it includes no others."""
        if self._is_masked and len(set(ask.active)) < LEAST_ACTIVE:
            raise ProtocolError(
                "A sum over one active party would show that party's own numbers, even with masks. "
                "Nothing was released."
            )
        return self.name in ask.active

    def home(self, job: EvolvingJob) -> Home:
        """Return the party's rows in this job's bins, for the party itself."""
        if self._home is None or self._home[0] != job.digest:
            require_schema(self._table, job.schema_digest)
            schema, threads = self._table.schema, self._n_threads
            binning = job.binning or lay_own_bins(self._table, job.settings.max_bins)
            require_bins(binning, schema)
            table = bin_table(self._table, binning, n_threads=threads, target_bits=TARGET_BITS)
            fit = FitTable.of(table, binning, len(schema.label.classes or ()))
            self._home = (job.digest, Home(fit, binning, table.keys, job.settings))
        return self._home[1]

    def home_tree(self, job: EvolvingJob) -> HomeTree:
        """Return the tree that this party grows alone."""
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
        sums[:-1] = weigh_scores(scores, weight)
        sums[-1] = weight
        return sums

    def _choose(self, ask: ChoiceAsk) -> Integers:
        self._require_structures(ask.job, ask.depth, ask.genes)
        self._exactly(ask.job)
        chosen = self._take(ask.job, ask.depth, ask.genes, all_rows=ask.all_rows)
        return np.array([1, chosen.is_home], np.int64)

    def _take(self, job: EvolvingJob, depth: int, genes: Genes, *, all_rows: bool) -> PersonalTree:
        """Fit the structures to own rows and keep the best."""
        self.personal = self.home(job).personal_tree(
            genes, depth, all_rows=all_rows, n_threads=self._n_threads
        )
        self.chosen_in = job
        return self.personal

    def _require_structures(self, job: EvolvingJob, depth: int, genes: Genes) -> None:
        require_asked(job, depth, genes, len(self._table.schema.columns))


def _not_exactly() -> PolicyError:
    return PolicyError("A private job may ask only for noisy counts. Nothing was released.")
