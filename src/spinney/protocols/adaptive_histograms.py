"""The paper's own histograms (S1, Algorithms 2 and 3): each party's bins adapt to its rows.

A party streams a node's rows into at most b bins, merging the nearest two; the coordinator merges
the parties' histograms and cuts between their means. Not exact over parties, and not private.

**Who learns what.** The coordinator learns each party's own histograms, the means of their bins
included: with small nodes, single values. **Who never learns what.** Nobody but its party sees a
row's key or which node a row stands in.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney.protocols.growing import Job, OpenNodes, Search
from spinney.transport.channel import Ask, Channel
from spinney.trees.adaptive import AdaptiveHistograms, merged, midpoints
from spinney.trees.growth import Growth
from spinney.trees.split import BestSplits


@dataclass(frozen=True)
class AdaptiveReply:
    """A party's own histograms."""

    histograms: AdaptiveHistograms


@dataclass(frozen=True)
class AdaptiveAsk(OpenNodes, Ask[AdaptiveReply]):
    """What are your own histograms of these open nodes? (Only with `binning="adaptive"`.)"""

    reveals: ClassVar[str] = "histograms of tree nodes with the means of their bins"
    refused_under_masks: ClassVar[bool] = True
    reply_type: ClassVar[type[Any]] = AdaptiveReply


def grow_adaptively(channel: Channel, job: Job, growth: Growth, search: Search) -> None:
    """Grow a level from the parties' own histograms, merged (Alg. 3)."""
    frontier = growth.frontier
    parts: list[BestSplits] = []
    thresholds: list[NDArray[np.float32]] = []
    for first, last in job.batches(frontier.slots):
        ask = AdaptiveAsk(job, growth.levels, first, last)
        ask.__dict__["frontier"] = frontier  # known here; others compute it
        replies = channel.ask(ask)
        found = merged(
            [reply.histograms for reply in replies.values()],
            frontier.columns,
            ask.slots,
            is_regression=job.n_classes == 0,
        )
        best = search.best(found.moments, growth, first, last)
        parts.append(best)
        thresholds.append(midpoints(best, found, frontier.columns, ask.slots))
    growth.grow(BestSplits.of_parts(parts), threshold=np.concatenate(thresholds))
