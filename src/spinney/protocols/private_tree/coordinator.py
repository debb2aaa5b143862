"""The coordinator's side of a private tree: it decides each level from noisy answers."""

from dataclasses import asdict, dataclass

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.accounts.account import claims_of
from spinney.protocols.accounts.budget import summed_variance
from spinney.protocols.accounts.replies import NoisyReply
from spinney.protocols.model import ForestModel
from spinney.protocols.noisy_boosting.coordinator import boost
from spinney.protocols.noisy_boosting.distilling import distil
from spinney.protocols.noisy_boosting.messages import PublicBoosting
from spinney.protocols.private_tree.messages import (
    BoundsAsk,
    CellsAsk,
    Grown,
    ProposalsAsk,
    PublicTree,
    SidesAsk,
    TreeJoinAsk,
    TreeLeavesAsk,
    TreeSoFar,
    TrustedCellsAsk,
    plan_of,
)
from spinney.protocols.private_tree.settings import (
    NAME,
    TreeSettings,
    boosting_of,
    choose_method,
)
from spinney.protocols.rows.setup import agree_on_schema
from spinney.protocols.training import Phases, Training
from spinney.tables.schema import Schema
from spinney.transport.channel import Channel
from spinney.trees.forest import Forest
from spinney.trees.leaf_counts import NodeNoise, finish_trees, prune
from spinney.trees.public_cells import fixed_costs, noisy_gain, noisy_impurity
from spinney.trees.public_trees import level_of
from spinney.typing import Bools, Floats, Integers, Progress, silent

_SURE = 3.0  # standard deviations: a node is too small only if noise cannot explain it


@dataclass(frozen=True)
class LevelChoice:
    """The cut of every open node, whether it is made, and what was asked about the node."""

    cut: Integers
    accepted: Bools
    steps: Integers  # parts of the columns that were asked about


def decide_level(channel: Channel, grown: Grown) -> LevelChoice:
    """Ask the parties and decide the open nodes."""
    return _METHODS[grown.public.settings.method](channel, grown)


def _histograms(channel: Channel, grown: Grown) -> LevelChoice:
    """Algorithm 5: histograms of all columns; stop as the paper does, using every column."""
    columns = np.ones((grown.n_open, grown.public.plan.n_columns), np.bool_)
    counts = _asked_cells(channel, grown, columns)
    start = grown.public.cells.start
    totals = np.add.reduceat(counts, start[:-1], axis=1)  # (n_open, n_columns, n_classes)
    too_small = (totals.sum(axis=2) < grown.public.settings.min_samples_leaf).all(axis=1)
    present = (totals > 0).any(axis=1).sum(axis=1)
    impurity = _impurity(grown, counts, columns)
    cut = impurity.argmin(axis=1)
    possible = np.isfinite(impurity[np.arange(cut.size), cut])
    steps = np.full(grown.n_open, grown.public.plan.n_steps)
    return LevelChoice(cut, possible & ~too_small & (present > 1), steps)


def _save_budget(channel: Channel, grown: Grown) -> LevelChoice:
    """Algorithm 6: bounds first, then histograms of the columns that may hold the best cut.

    A column is dropped if its bound exceeds the lowest bound by more than the noise of both. What
    its histogram would have cost goes to the children.
    """
    plan = grown.public.plan
    reply = channel.sum(BoundsAsk(grown.so_far)).counters
    if reply.size != grown.n_open * plan.n_columns:
        raise ProtocolError("A party's bounds do not match the columns asked about.")
    bounds = reply.reshape(grown.n_open, plan.n_columns)
    noise = np.zeros(grown.n_open)
    for group in plan.bounds_groups(grown.node_budgets):
        noise[group.members] = np.sqrt(summed_variance(group.noise, plan.n_parties))
    near = bounds <= bounds.min(axis=1, keepdims=True) + noise[:, None]
    steps = -(near.sum(axis=1) * plan.n_steps // -plan.n_columns)
    n_asked = np.array([plan.n_asked(int(step)) for step in steps])
    rank = np.argsort(np.argsort(bounds, axis=1, kind="stable"), axis=1)
    columns = rank < n_asked[:, None]
    counts = _asked_cells(channel, grown, columns)
    impurity = _impurity(grown, counts, columns)
    cut = impurity.argmin(axis=1)
    possible = np.isfinite(impurity[np.arange(cut.size), cut])
    deviation = np.zeros(grown.n_open)
    width = grown.public.cells.n_cells / plan.n_columns * plan.n_classes
    for group in plan.histogram_groups(grown.node_budgets, steps):
        deviation[group.members] = np.sqrt(summed_variance(group.noise, plan.n_parties) * width)
    mean = counts.sum(axis=(1, 2)) / n_asked
    return LevelChoice(cut, possible & _enough(grown, mean, deviation / np.sqrt(n_asked)), steps)


def _propose(channel: Channel, grown: Grown) -> LevelChoice:
    """Let every party propose a cut, count the sides of all proposals, and take the best."""
    plan, cells = grown.public.plan, grown.public.cells
    replies = channel.ask(ProposalsAsk(grown.so_far)).values()
    proposed = np.stack([reply.cuts for reply in replies], axis=1)
    if proposed.shape[0] != grown.n_open or proposed.min() < 0 or proposed.max() >= cells.cuts.n:
        raise ProtocolError("A party proposed something that is not a cut of the node.")
    cuts = _distinct(proposed)
    is_cut = cuts >= 0
    reply = channel.sum(SidesAsk(grown.so_far, cuts)).counters
    if reply.size != int(is_cut.sum()) * 2 * plan.n_classes:
        raise ProtocolError("A party's sides do not match the cuts asked about.")
    sides = np.zeros((*cuts.shape, 2, plan.n_classes), np.int64)
    sides[is_cut] = reply.reshape(-1, 2, plan.n_classes)
    gain = np.where(is_cut, noisy_gain(sides[:, :, 0], sides[:, :, 1]), -np.inf)
    best = gain.argmax(axis=1)
    node = np.arange(grown.n_open)
    n_cuts = is_cut.sum(axis=1)
    mean = sides.sum(axis=(1, 2, 3)) / n_cuts
    deviation = np.zeros(grown.n_open)
    for group in plan.side_groups(grown.node_budgets, n_cuts):
        deviation[group.members] = np.sqrt(
            summed_variance(group.noise, plan.n_parties) * 2 * plan.n_classes
        )
    enough = _enough(grown, mean, deviation / np.sqrt(n_cuts))
    steps = np.full(grown.n_open, plan.n_steps)
    return LevelChoice(cuts[node, best], enough & np.isfinite(gain[node, best]), steps)


def _noisy_max(channel: Channel, grown: Grown) -> LevelChoice:
    """Take one noisy maximum over all cuts; a secure multi-party (MPC) argmax could replace this.

    The parties' answers would then be their shares of counts and noise, and this function's result
    would be the only number that anybody learns.
    """
    cells, plan = grown.public.cells, grown.public.plan
    reply = channel.sum(TrustedCellsAsk(grown.so_far)).counters
    n_counts = grown.n_open * cells.n_cells * plan.n_classes
    if grown.looks_ahead:
        n_counts *= cells.n_cells
    if reply.size != n_counts + grown.n_open * cells.cuts.n:
        raise ProtocolError("A party's counts do not have the cells asked for.")
    counts = reply[:n_counts].reshape(-1, cells.n_cells, plan.n_classes)
    luck = reply[n_counts:].reshape(grown.n_open, cells.cuts.n)
    scores = luck - (
        cells.costs_ahead(counts)
        if grown.looks_ahead
        else fixed_costs(*cells.cuts.sides(counts, cells.start))
    )
    able = cells.can_cut(grown.frontier)
    cut = np.where(able, scores, np.iinfo(np.int64).min).argmax(axis=1)
    steps = np.full(grown.n_open, plan.n_steps)
    return LevelChoice(cut, np.asarray(able.any(axis=1)), steps)


_METHODS = {
    "histograms": _histograms,
    "save_budget": _save_budget,
    "propose": _propose,
    "noisy_max": _noisy_max,
}


def _asked_cells(channel: Channel, grown: Grown, columns: Bools) -> Integers:
    """Return noisy counts by node, cell and class; zero if a cell was not or cannot be asked."""
    cells, plan = grown.public.cells, grown.public.plan
    reply = channel.sum(CellsAsk(grown.so_far, columns)).counters
    asked = np.repeat(columns, cells.parts + 1, axis=1)
    if reply.size != int(asked.sum()) * plan.n_classes:
        raise ProtocolError("A party's histograms do not have the cells asked for.")
    counts = np.zeros((grown.n_open, cells.n_cells, plan.n_classes), np.int64)
    counts[asked] = reply.reshape(-1, plan.n_classes)
    return counts


def _impurity(grown: Grown, counts: Integers, columns: Bools) -> Floats:
    """Return Algorithm 4's impurity of every cut; infinity if the cut cannot be made."""
    cells = grown.public.cells
    impurity = noisy_impurity(*cells.cuts.sides(counts, cells.start))
    able = cells.can_cut(grown.frontier) & columns[:, cells.cuts.column]
    found: Floats = np.where(able, impurity, np.inf)
    return found


def _enough(grown: Grown, mean: Floats, deviation: Floats) -> Bools:
    """Return which nodes may hold enough rows to be split, given noisy means of their counts."""
    enough: Bools = mean + _SURE * deviation >= grown.public.settings.min_samples_leaf
    return enough


def _distinct(proposed: Integers) -> Integers:
    """Return each node's distinct cuts in ascending order, padded with -1."""
    ordered = np.sort(proposed, axis=1)
    again = np.zeros(ordered.shape, np.bool_)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    last_first = -np.sort(-np.where(again, -1, ordered), axis=1)
    return last_first[:, : int((last_first >= 0).sum(axis=1).max())]


def train(
    channel: Channel,
    settings: TreeSettings,
    *,
    n_jobs: int | None = None,  # noqa: ARG001  all protocols take it; little is done here
    progress: Progress = silent,
) -> Training:
    """Grow a tree with the parties on the channel."""
    phases, n_parties = Phases(), len(channel.parties)
    with phases.phase("agreeing"):
        schema = agree_on_schema(channel)
        plan_of(schema, settings, n_parties)  # raises before any party is asked
        channel.ask(TreeJoinAsk(settings, schema.digest(), n_parties))
    choice = choose_method(settings, len(schema.columns), n_parties)
    grow = _distilled if choice.settings.method == "distilled" else _grown
    model = grow(channel, schema, settings, phases, progress)
    return Training(
        model,
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        {},
        None,
        asdict(choice.settings) | {"why": choice.why},
        claims_of(channel, settings.privacy),
    )


def _distilled(
    channel: Channel, schema: Schema, given: TreeSettings, phases: Phases, progress: Progress
) -> ForestModel:
    """Boost from noisy sums, and distil one tree from it."""
    n_parties = len(channel.parties)
    settings = boosting_of(choose_method(given, len(schema.columns), n_parties).settings)
    assert settings.tree is not None  # it is what is distilled
    public = PublicBoosting.of(schema, settings, n_parties)
    boosting = boost(channel, public, settings, phases, progress)
    with phases.phase("counting"):
        progress("counting leaves", 0, 0)
        forest, noise = distil(channel, boosting, settings.tree)
    return ForestModel(NAME, schema, forest, boosting.binning.bin_of_category, noise=noise)


def _grown(
    channel: Channel, schema: Schema, settings: TreeSettings, phases: Phases, progress: Progress
) -> ForestModel:
    """Grow a tree level by level, and count its leaves."""
    n_parties = len(channel.parties)
    public = PublicTree.of(schema, settings, n_parties)
    with phases.phase("growing"):
        facts = (settings, schema.digest(), n_parties)
        n_levels, tree = public.plan.n_levels, TreeSoFar(*facts, levels=(), asked=())
        while tree.depth < n_levels and tree.grown(public).n_open:
            progress("growing", tree.depth, n_levels)
            grown = tree.grown(public)
            choice = decide_level(channel, grown)
            splits = public.cells.splits(grown.frontier, choice.cut, choice.accepted)
            opens = tree.depth + 1 < n_levels
            level = level_of(public.binning.columns, splits, opens=opens)
            asked = (*tree.asked, choice.steps) if public.plan.saves else ()
            tree = TreeSoFar(*facts, (*tree.levels, level), asked)
    with phases.phase("counting"):
        progress("counting leaves", 0, 0)
        reply = channel.sum(TreeLeavesAsk(tree))
        forest, noise = _finished(reply, tree.grown(public))
    return ForestModel(NAME, schema, forest, public.binning.bin_of_category, noise=noise)


def _finished(reply: NoisyReply, grown: Grown) -> tuple[Forest, NodeNoise]:
    """Return the tree with its leaves' counts, and the size of their noise."""
    tree, plan, leaves = grown.so_far, grown.public.plan, grown.leaves
    if reply.counters.size != leaves.n_leaves * plan.n_classes:
        raise ProtocolError("A party's noisy counts do not match the leaves asked about.")
    counts = reply.counters.reshape(-1, plan.n_classes)
    variance = np.zeros(leaves.n_leaves)
    for group in plan.leaf_groups(tree.levels, tree.asked):
        variance[group.members] = summed_variance(group.noise, plan.n_parties)
    forest, noise = finish_trees(leaves, counts, variance, tree.settings.shrinkage)
    return prune(forest, noise, tree.settings.min_samples_leaf)
