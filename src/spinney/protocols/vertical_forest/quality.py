"""A finished vertical forest: each party's part, scored on rows that it was trained on.

The same leaf sets as in a prediction give the leaves of some training rows. The label party counts
how well the trees that have not seen a row predict it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.protocols.columns.job import Target
from spinney.protocols.columns.leakage import Membership
from spinney.protocols.columns.messages import FinishAsk
from spinney.protocols.columns.model import PartialModel
from spinney.protocols.columns.prediction import JudgeAsk, name_leaves
from spinney.protocols.rows.quality import (
    QualityReply,
    count_judged,
    dropped_bits,
    quality_of,
    row_values,
    seen_by,
)
from spinney.protocols.training import Quality, Roles
from spinney.protocols.vertical_forest.growing import ForestGrowing
from spinney.protocols.vertical_forest.job import Job, values_of_leaves
from spinney.tables.holding import Holding
from spinney.transport.channel import Channel
from spinney.trees.binning import Binning
from spinney.trees.layout import LeafValues
from spinney.trees.partial import LeafSets, leaf_sets
from spinney.typing import Bools, Integers

_QUALITY_ROWS = 2048  # rows that the forest is scored on, unless it must be all


@dataclass(frozen=True)
class FinishedPart:
    """A party that has its part and still has its training rows."""

    growing: ForestGrowing
    model: PartialModel
    binning: Binning | None


def part_of(
    growing: ForestGrowing, holding: Holding, binning: Binning | None, ask: FinishAsk
) -> PartialModel:
    """Return a party's part of the forest, with leaf values if it holds the labels."""
    label = holding.label
    part = growing.part(values_of_leaves(label, growing.weights, holding.n_rows) if label else None)
    bins = binning.bin_of_category if binning else ()
    return PartialModel(ask.party, holding.columns, label, ask.numbers, bins, part)


@dataclass(frozen=True)
class JudgedRows:
    """Some training rows, the leaf of each in every tree, and the trees that drew it."""

    rows: Integers
    leaves: NDArray[np.uint32]  # (n_trees, n_rows)
    seen: Bools  # (n_rows, n_trees)


def n_judged_in(job: Job) -> int:
    """Return how many rows, evenly spaced, a job is scored on."""
    return job.n_rows if job.settings.oob_score else min(job.n_rows, _QUALITY_ROWS)


def _judged(held: FinishedPart, n_judged: int) -> Integers:
    n_rows = held.growing.job.n_rows
    if n_judged != n_judged_in(held.growing.job):  # fewer would single rows out
        raise ProtocolError("The question is not about the rows that the job is scored on.")
    return np.linspace(0, n_rows - 1, n_judged).astype(np.int64)


def training_sets(held: FinishedPart, n_judged: int, n_threads: int) -> LeafSets:
    """Return which leaves some training rows may reach."""
    rows = _judged(held, n_judged)
    values = np.zeros((0, rows.size), np.float32)
    if held.binning is not None:
        values = np.ascontiguousarray(row_values(held.growing.table, held.binning, rows).T)
    return leaf_sets(held.model.part, values, n_threads)


def name_judged_leaves(held: FinishedPart, ask: JudgeAsk, n_threads: int) -> JudgedRows:
    """Return the leaves of the scored rows, from all parties' sets."""
    rows = _judged(held, ask.n_judged)
    leaves = ask.named.leaves
    if ask.named.ownership is not None:
        leaves = ask.named.found(training_sets(held, ask.n_judged, n_threads), n_threads)
    part, job = held.model.part, held.growing.job
    if leaves.shape != (part.n_trees, rows.size) or not part.moments.shape[1]:
        raise ProtocolError("The question's leaves do not fit the forest, or its labels.")
    if int(leaves.max(initial=0)) >= part.n_nodes:
        raise ProtocolError("The question names leaves that the forest does not have.")
    keys = held.growing.table.keys[rows]
    return JudgedRows(
        rows, leaves, seen_by(job.sample_keys, keys, bootstrap=job.settings.bootstrap)
    )


def quality_counts(held: FinishedPart, judged: JudgedRows) -> QualityReply:
    """Count how well the trees predict rows that they have not seen."""
    growing, part = held.growing, held.model.part
    n_classes = growing.job.n_classes
    # Amounts are scored in fixed-point steps.
    fixed = LeafValues(growing.weights, bits=growing.job.target_bits)
    values = part.value if n_classes else fixed.of(part.moments)
    out = np.zeros((judged.rows.size, values.shape[1]))
    for tree, leaf in enumerate(judged.leaves):
        out += np.where(judged.seen[:, tree, None], 0.0, values[leaf])
    n_judges = part.n_trees - judged.seen.sum(axis=1)
    target = growing.table.target[judged.rows]
    drop_bits = dropped_bits(growing.job.target_bits, growing.job.n_rows)
    return QualityReply(count_judged(target, out, n_judges, n_classes, drop_bits))


def membership_of(held: FinishedPart, judged: JudgedRows, true_labels: Target) -> Membership:
    """Return what a curious party knows about the scored rows, with their true labels added."""
    job = held.growing.job
    drawn = judged.seen if job.settings.bootstrap else np.ones_like(judged.seen)
    truth = true_labels[judged.rows]
    return Membership(judged.leaves, drawn, truth, job.n_classes, job.label_epsilon)


def judge_forest(channel: Channel, roles: Roles, job: Job, n_jobs: int | None) -> Quality:
    """Let the label party score the forest on rows that its trees have not seen."""
    n_judged = n_judged_in(job)
    named = name_leaves(roles, channel, n_judged, n_jobs)
    reply = channel.ask(JudgeAsk(named, n_judged), to=(roles.label_party,))[roles.label_party]
    step = job.target_step * 2 ** dropped_bits(job.target_bits, job.n_rows)
    quality = quality_of(reply.counts, bootstrap=job.settings.bootstrap, step=step)
    if job.label_epsilon is not None:
        return replace(quality, rows=f"{quality.rows}, randomised labels")
    return quality
