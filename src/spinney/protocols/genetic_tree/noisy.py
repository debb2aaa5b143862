"""Structures evolved from noisy counts: the private mode of evolved trees (PRIVACY.md, A.4).

Scores of trees that parties fit to their own rows cannot be protected: one record may change an F1
by a third. So nothing is fitted while structures evolve. A structure's cuts follow from public
facts alone: each node halves what its path has left of its column's declared range, or of its
categories in their declared order. Parties count their rows by leaf and class, with noise; the
coordinator labels the leaves by the sums and computes F1 from them. In the end each party fits the
last population to its own rows exactly, and keeps its tree to itself.

A record is in one leaf of every structure, so it changes the counts of P structures by the square
root of P (L2 norm). Each of G generations gets an equal part of rho, the largest zero-concentrated
DP budget (zCDP) that converts to `epsilon` at `delta`: noise of variance P G / (2 rho) on every
count. So use few structures, few generations, little depth, and many rows over all parties.

**Who learns what.** The coordinator learns each party's schema, that it joins, its claims, and in
the end that it has a tree of its own. Like readers of the structures, it learns counts with noise;
under secure sums, only their sum over parties. **Who never learns what.** Nobody learns a party's
own depth, structure, vote or score, or whether it keeps the tree it had. The claims hold only if a
party's tree stays there: showing it to others shows exact counts of the party's rows.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spinney import seeds
from spinney.errors import PolicyError, ProtocolError, SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Measure, Unit
from spinney.privacy.mechanisms import DiscreteGaussian
from spinney.privacy.release import Charge, Exact, Noised, OnlyMasked
from spinney.privacy.scopes import ALL_ROWS, Budget, Disclosure, Protection, Spend
from spinney.protocols.accounts.account import JoinReply, PartyAccount
from spinney.protocols.accounts.budget import totals_disclosure
from spinney.protocols.accounts.replies import NoisyReply, ShareReply
from spinney.protocols.genetic_tree.fitness import f1_scores
from spinney.protocols.genetic_tree.messages import (
    EvolvingJob,
    NoisyJoinAsk,
    NoisyScoresAsk,
    OwnTreeAsk,
)
from spinney.protocols.genetic_tree.settings import GeneticSettings
from spinney.protocols.rows.facts import bin_table, public_binning
from spinney.protocols.rows.setup import require_schema
from spinney.protocols.settings import PrivacySettings
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Channel
from spinney.trees.binning import Binning
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.evolution import Population
from spinney.trees.genome import initial
from spinney.trees.structures import FitTable
from spinney.typing import Codes, Floats, Integers

_BINS: Final = 64  # bins of a declared range: a power of two, so that it halves exactly
_STEPS: Final = 1 << 32  # steps of a generation's rho, in the search for the least noise


_OWN_TREE: Final = Disclosure(
    "the party's own tree, which holds exact counts of its rows",
    Protection.HIDDEN,
    "it stays at the party, and no question asks for it",
    (Unit.RECORD_ADD_REMOVE,),
)


@dataclass(frozen=True)
class NoisyPlan:
    """What each generation costs; every party computes it from the settings."""

    called: ClassVar[str] = "<class 'spinney.protocols.noisy_evolution.NoisyPlan'>"

    settings: GeneticSettings
    n_parties: int
    n_classes: int

    @property
    def privacy(self) -> PrivacySettings:
        """The privacy of the job: its budget and mechanism."""
        if self.settings.privacy is None:
            raise ProtocolError("The job has no privacy settings, so there is nothing to pay.")
        return self.settings.privacy

    @cached_property
    def budget(self) -> Budget:
        """The largest rho (zCDP) that converts to the job's epsilon."""
        return Budget.zcdp(self.privacy.amount, Fraction(self.settings.delta))

    @cached_property
    def noise(self) -> DiscreteGaussian:
        """The noise of a generation's counts: the smallest that its part of the budget allows.

        Noise in shares costs more than rho; the smaller the noise, the higher the extra cost.
        """
        whole = self._affordable(_STEPS)
        if whole:
            return whole
        found, low, high = None, 0, _STEPS
        while high - low > 1:
            middle = (low + high) // 2
            noise = self._affordable(middle)
            found, low, high = (noise, middle, high) if noise else (found, low, middle)
        if found is None:
            raise SettingError("epsilon is too small to be divided over the generations.")
        return found

    def _affordable(self, steps: int) -> DiscreteGaussian | None:
        """Return noise for `steps` steps of a generation's rho; None if it costs too much."""
        each = self.budget.amount / self.settings.n_generations
        moved, shares = Fraction(self.settings.n_survivors), self.privacy.shares(self.n_parties)
        try:
            noise = DiscreteGaussian(each * steps / _STEPS, moved, shares=shares)
        except SettingError:  # too little noise to be shared, or too much for the sums
            return None
        return noise if noise.cost(self.n_values).amount <= each else None

    @property
    def n_values(self) -> int:
        """The maximum number of counts of a generation."""
        return self.settings.n_survivors * (1 << self.settings.max_depth) * self.n_classes

    def spends(self, generation: int) -> list[Spend]:
        """Return the price of a generation."""
        what = f"class counts of leaves of generation {generation}"
        return [Spend(what, self.noise, (ALL_ROWS,), n_values=self.n_values)]

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        shares = self.privacy.shares(self.n_parties)
        honest = shares.honest if shares else 1
        name = self.privacy.job
        return JobTerms(name, data, self.n_parties, honest, (self.budget,), Measure.ZCDP)

    def planned(self) -> list[Spend]:
        """Return everything the job may spend."""
        generations = range(self.settings.n_generations)
        return [spend for number in generations for spend in self.spends(number)]


class NoisyCounting:
    """A party's rows in public bins, counted with noise that its ledger has paid for."""

    def __init__(self, table: Table, account: PartyAccount) -> None:
        self._table = table
        self._account = account

    @cached_property
    def _rows(self) -> FitTable:
        binning = public_cells(self._table.schema)
        table = bin_table(self._table, binning, n_threads=1, target_bits=TARGET_BITS)
        return FitTable.of(table, binning, len(self._table.schema.label.classes or ()))

    def join(self, ask: NoisyJoinAsk) -> JoinReply:
        """Open the job if its whole cost can be paid."""
        require_schema(self._table, ask.job.schema_digest)
        public_cells(self._table.schema)  # raises if something is not declared
        return self._account.join(self._plan(ask.job))

    def _plan(self, job: EvolvingJob) -> NoisyPlan:
        n_classes = len(self._table.schema.label.classes or ())
        return NoisyPlan(job.settings, job.n_parties, n_classes)

    def answer(self, ask: NoisyScoresAsk) -> NoisyReply | ShareReply:
        """Pay for a generation and count it."""
        require_schema(self._table, ask.job.schema_digest)
        plan = self._plan(ask.job)
        settings, rows = plan.settings, self._rows
        if len(ask.genes) > settings.n_survivors or ask.depth != settings.max_depth:
            raise PolicyError(
                "The question asks for more than the job pays for. Nothing was released."
            )
        size = (1 << ask.depth) * rows.n_classes

        def draw(charges: tuple[Charge, ...]) -> bytes:
            counts = np.zeros((len(ask.genes), size), np.int64)
            for number, genes in enumerate(ask.genes):
                leaf = leaves_of_rows(rows.codes, rows.n_bins, genes, ask.depth)
                cell = leaf * rows.n_classes + rows.target
                counts[number] = np.bincount(cell, minlength=size)
            return plan.noise.release(Exact(counts.ravel()), charges[0]).values.tobytes()

        spends = plan.spends(ask.generation)
        told = [totals_disclosure(plan.privacy, plan.n_parties)]
        self._account.disclose(plan, "totals", told)
        data = self._account.pay(plan, ask.generation, ask, spends, draw)
        counters = np.frombuffer(data, np.int64).copy()
        shares = plan.privacy.shares(plan.n_parties)
        if shares:
            return ShareReply(OnlyMasked(Noised(counters, shares)))
        return NoisyReply(counters)

    def note_own_tree(self, job: EvolvingJob) -> None:
        """Record what the claims depend on, before the party has its own tree."""
        require_schema(self._table, job.schema_digest)
        self._account.disclose(self._plan(job), "own tree", [_OWN_TREE])


def public_cells(schema: Schema) -> Binning:
    """Return bins that follow from the schema alone."""
    return public_binning(schema, _BINS)


def leaves_of_rows(
    codes: Codes, n_bins: Integers, genes: NDArray[np.int16], depth: int
) -> Integers:
    """Return the leaf that each row reaches if every node halves what its path has left."""
    leaf = np.zeros(codes.shape[1], np.int64)
    first = [(0, int(n) - 1) for n in n_bins]
    queue = [(0, 0, np.arange(codes.shape[1]), first)]  # gene, level, rows, remaining range
    while queue:
        gene, level, rows, left = queue.pop()
        if level == depth or genes[gene] < 0 or not rows.size:
            continue
        column = int(genes[gene])
        low, high = left[column]
        middle = (low + high) // 2
        goes_left = codes[column, rows] <= middle  # missing values go right
        below = 1 << (depth - level - 1)
        leaf[rows[~goes_left]] += below
        for child, half, mine in (
            (gene + 1, (low, middle), goes_left),
            (gene + below, (min(middle + 1, high), high), ~goes_left),
        ):
            rest = [*left[:column], half, *left[column + 1 :]]
            queue.append((child, level + 1, rows[mine], rest))
    return leaf


class NoisySearch:
    """The population, bred by scores from noisy counts."""

    all_rows = False
    elitism = False

    def __init__(self, channel: Channel, job: EvolvingJob, schema: Schema, stream: int) -> None:
        settings = job.settings
        self._channel, self._job = channel, job
        self._n_classes = len(schema.label.classes or ())
        self._random = seeds.generator(seeds.derive_seed(settings.seed, stream))
        self.depth = settings.max_depth
        self.best: list[float] = []
        self.population = Population(settings.breeding(len(schema.columns), self.depth), True)
        n, ratio = settings.n_survivors, settings.leaf_ratio
        self._coming = initial(self._random, n, self.depth, len(schema.columns), ratio)
        public_cells(schema)  # raises before any party is asked
        channel.ask(NoisyJoinAsk(job))

    @property
    def told(self) -> str:
        """The best score, in words."""
        return f"noisy f1 {self.best[-1]:.4g}"

    def generation(self, number: int) -> None:
        """Have new structures counted; let the best survive and breed."""
        ask = NoisyScoresAsk(self._job, self.depth, number, self._coming)
        counters = self._channel.sum(ask).counters
        if counters.size != len(self._coming) * (1 << self.depth) * self._n_classes:
            raise ProtocolError("A party's noisy counts do not match the question.")
        counts = counters.reshape(len(self._coming), 1 << self.depth, self._n_classes)
        self.population.update(self._coming, noisy_f1(counts))
        self.best.append(float(self.population.score[0]))
        self._coming = self.population.offspring(self._random)

    def choose(self) -> None:
        """Let every party choose a tree; nobody learns which one."""
        self._channel.ask(OwnTreeAsk(self._job, self.depth, self.population.genes), quorum=1)


def noisy_f1(counts: Integers) -> Floats:
    """Return F1 of structures with leaves labelled by counts, (structure, leaf, class)."""
    n_classes = counts.shape[2]
    guess = counts.argmax(axis=2)
    kept = np.maximum(counts, 0)
    confusion = np.stack(
        [np.where((guess == c)[..., None], kept, 0).sum(axis=1) for c in range(n_classes)], axis=2
    )
    return f1_scores(confusion)
