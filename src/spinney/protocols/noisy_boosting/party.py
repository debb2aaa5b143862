"""A party's rows in boosting from noisy sums: it keeps their scores, pays, and adds up."""

from functools import cached_property

import numpy as np

from spinney.errors import ProtocolError
from spinney.privacy.release import Charge, Exact
from spinney.protocols.accounts.budget import totals_disclosure
from spinney.protocols.accounts.private_rows import PrivateRows
from spinney.protocols.accounts.replies import NoisyReply, ShareReply, noisy_reply
from spinney.protocols.noisy_boosting.budget import EDGE_CELLS
from spinney.protocols.noisy_boosting.messages import (
    BoostedSoFar,
    DistilledLeavesAsk,
    FirstFactsAsk,
    LeafSumsAsk,
    PublicBoosting,
)
from spinney.protocols.noisy_boosting.settings import Batch, Settings
from spinney.trees.binning import Binning
from spinney.trees.bounded_gradients import VALUE_BITS, ClippedSquares, leaf_sums
from spinney.trees.curves import CurveTerms, RowTerms, moments
from spinney.trees.leaf_counts import NumberedLeaves
from spinney.trees.level import Level
from spinney.trees.noisy_edges import cell_counts
from spinney.trees.public_trees import frontiers
from spinney.trees.residuals import residual_cells
from spinney.typing import Integers


class _Scores:
    """The rows' scores after some batches; a cache that can be made anew from any question."""

    def __init__(self, rows: PrivateRows, public: PublicBoosting, facts: Integers) -> None:
        self.facts = facts
        self.binning: Binning = public.binning(facts)
        table = rows.table(self.binning)
        self.codes, self.target = table.by_column(), table.target
        base = public.base(facts)
        self.of_rows = np.repeat(base[:, None], self.target.size, axis=1)
        self._public = public
        self._added: list[tuple[Integers, ...]] = []  # what was told of each batch

    def is_before(self, so_far: BoostedSoFar) -> bool:
        """Return whether these scores lead to those of a question."""
        return (
            len(self._added) <= len(so_far.values)
            and np.array_equal(self.facts, so_far.facts)
            and all(
                all(np.array_equal(*pair) for pair in zip(held, self._told(so_far, n), strict=True))
                for n, held in enumerate(self._added)
            )
        )

    def _told(self, so_far: BoostedSoFar, number: int) -> tuple[Integers, ...]:
        """Return what a question says of a batch: values, and curves and columns if there are."""
        scored = max(number - self._public.choice.first_scored, -1)
        columns = so_far.columns[scored : scored + 1] if scored >= 0 else ()
        return (so_far.values[number], *so_far.curves[number : number + 1], *columns)

    def add(self, so_far: BoostedSoFar) -> None:
        """Add the values of the batches that are not added yet."""
        for number in range(len(self._added), len(so_far.values)):
            batch = self._public.batches[number]
            if batch.trees:
                self._add_trees(number, so_far)
            if batch.bends:
                self._add_curves(so_far.curves[number])
            self._added.append(self._told(so_far, number))

    def _add_trees(self, number: int, so_far: BoostedSoFar) -> None:
        trees = self._public.trees(self.binning, number, so_far.columns)
        value = so_far.values[number]
        n_leaves = 1 << trees.depth
        for tree in range(trees.n_trees):
            leaf = trees.leaves(self.codes, tree)
            of_tree = value[:, tree * n_leaves : (tree + 1) * n_leaves]
            self.of_rows += of_tree[:, leaf] * 2.0**-VALUE_BITS

    def _add_curves(self, coefficients: Integers) -> None:
        self.of_rows += float(coefficients[0]) * 2.0**-VALUE_BITS
        for bins, value in zip(self.codes, self.terms.values(coefficients), strict=True):
            self.of_rows += value[bins] * 2.0**-VALUE_BITS

    @cached_property
    def terms(self) -> CurveTerms:
        """The terms of curves."""
        return self._public.terms(self.binning)

    @cached_property
    def _row_terms(self) -> RowTerms:
        return self.terms.of_rows(self.codes)

    def sums(self, so_far: BoostedSoFar) -> Integers:
        """Return everything that the next batch releases, one after another."""
        batch, found = self._public.batches[len(self._added)], []
        if batch.trees:
            found.append(self._leaf_sums(batch, so_far))
        if batch.bends:
            gradient = self._public.pulling(so_far).gradient(self.of_rows, self.target)
            found.append(self.terms.pulls(self._row_terms, gradient))
        if batch.counts_residuals:
            found.append(residual_cells(ClippedSquares().residual(self.of_rows, self.target)))
        if batch.counts_moments:
            found.append(moments(self._row_terms))
        return np.concatenate(found)

    def _leaf_sums(self, batch: Batch, so_far: BoostedSoFar) -> Integers:
        """Return the sums of a batch's leaves, tree by tree."""
        trees = self._public.trees(self.binning, len(self._added), so_far.columns)
        added = self._public.loss_of(batch, so_far).added(self.of_rows, self.target)
        found = [
            leaf_sums(added, trees.leaves(self.codes, tree), 1 << trees.depth)
            for tree in range(trees.n_trees)
        ]
        return np.concatenate(found, axis=1).ravel()


class BoostedRows:
    """One organisation's rows: every question is answered once, and the ledger pays."""

    def __init__(self, rows: PrivateRows) -> None:
        self._rows = rows
        self._public: tuple[tuple[Settings, int], PublicBoosting] | None = None
        self._scores: _Scores | None = None

    def answer(
        self, ask: FirstFactsAsk | LeafSumsAsk | DistilledLeavesAsk
    ) -> NoisyReply | ShareReply:
        """Answer a question."""
        match ask:
            case FirstFactsAsk():
                return self._facts(ask)
            case LeafSumsAsk():
                return self._sums(ask)
        return self._leaves(ask)

    def known(self, settings: Settings, schema_digest: str, n_parties: int) -> PublicBoosting:
        """Return what follows from a job's settings; the last one is cached."""
        self._rows.require_schema(schema_digest)
        key = (settings, n_parties)
        if self._public is None or self._public[0] != key:
            self._public = (key, PublicBoosting.of(self._rows.schema, settings, n_parties))
            self._scores = None  # another job's trees, even if its facts were the same
        return self._public[1]

    def _facts(self, ask: FirstFactsAsk) -> NoisyReply | ShareReply:
        public = self.known(ask.settings, ask.schema_digest, ask.n_parties)
        plan = public.plan

        def draw(charges: tuple[Charge, ...]) -> bytes:
            base, cells = self._counted(public)
            found = [plan.base_noise.release(Exact(base), charges[0]).values]
            if plan.n_numbers:
                found.append(plan.edge_noise.release(Exact(cells), charges[1]).values)
            return np.concatenate(found).tobytes()

        told = [totals_disclosure(plan.privacy, plan.n_parties)]
        account = self._rows.account(ask)
        account.hold_to_table(plan)
        data = account.pay(plan, 0, ask, plan.fact_spends(), draw, disclosures=told)
        return noisy_reply(data, plan.privacy.shares(plan.n_parties))

    def _counted(self, public: PublicBoosting) -> tuple[Integers, Integers]:
        """Return the sums behind the first scores, and the cells of all numbers."""
        plan, schema = public.plan, self._rows.schema
        base = np.zeros(plan.n_base, np.int64)
        cells = np.zeros((plan.n_numbers, EDGE_CELLS), np.int64)
        numbers = [i for i, column in enumerate(schema.columns) if column.kind == "number"]
        for values, target in self._rows.numbers():
            base += plan.loss.base_sums(target)
            for place, at in enumerate(numbers if plan.n_numbers else ()):
                bounds = schema.columns[at].range
                assert bounds is not None  # the plan requires it
                cells[place] += cell_counts(values[at], bounds, EDGE_CELLS)
        return base, cells.ravel()

    def _sums(self, ask: LeafSumsAsk) -> NoisyReply | ShareReply:
        so_far = ask.so_far
        public = self.known(so_far.settings, so_far.schema_digest, so_far.n_parties)
        so_far.require(public)
        plan, number = public.plan, len(so_far.values)
        spends = plan.batch_spends(number)

        def draw(charges: tuple[Charge, ...]) -> bytes:
            parts = plan.parts(number, self._scored(public, so_far).sums(so_far))
            found = [
                spend.mechanism.release(Exact(part), charge).values
                for spend, part, charge in zip(spends, parts, charges, strict=True)
            ]
            return np.concatenate(found).tobytes()

        account = self._rows.account(ask)
        account.hold_to_table(plan)
        account.hold_to(plan, f"model of {number} batches", so_far.digest())
        data = account.pay(plan, 1 + number, ask, spends, draw)
        return noisy_reply(data, plan.privacy.shares(plan.n_parties))

    def _leaves(self, ask: DistilledLeavesAsk) -> NoisyReply | ShareReply:
        so_far = ask.so_far
        public = self.known(so_far.settings, so_far.schema_digest, so_far.n_parties)
        so_far.require_finished(public)
        plan, number = public.plan, len(so_far.values)
        leaves = _checked_leaves(public, so_far, ask.levels)
        (spend,) = spends = plan.leaf_spends(leaves.n_leaves)

        def draw(charges: tuple[Charge, ...]) -> bytes:
            counts = leaves.counts(self._rows.batches(leaves.binning), plan.n_classes)
            return spend.mechanism.release(Exact(counts.ravel()), charges[0]).values.tobytes()

        account = self._rows.account(ask)
        account.hold_to_table(plan)
        account.hold_to(plan, f"model of {number} batches", so_far.digest())
        account.hold_to(plan, "distilled tree", b"".join(level.pack() for level in ask.levels))
        data = account.pay(plan, 1 + number, ask, spends, draw)
        return noisy_reply(data, plan.privacy.shares(plan.n_parties))

    def _scored(self, public: PublicBoosting, so_far: BoostedSoFar) -> _Scores:
        if self._scores is None or not self._scores.is_before(so_far):
            self._scores = _Scores(self._rows, public, so_far.facts)
        self._scores.add(so_far)
        return self._scores


def _checked_leaves(
    public: PublicBoosting, so_far: BoostedSoFar, levels: tuple[Level, ...]
) -> NumberedLeaves:
    """Return the leaves of a distilled tree; raise unless it fits the job."""
    tree, binning = public.plan.settings.tree, public.binning(so_far.facts)
    if tree is None or len(levels) > tree.max_depth:
        raise ProtocolError("The job asks about no such tree. Nothing was released.")
    if frontiers(binning.columns, 1, levels)[-1].n_open and levels:
        raise ProtocolError("The question's tree is not finished. Nothing was released.")
    return NumberedLeaves(1, levels, binning)
