"""The coordinator's side of a private forest: it draws the trees and computes leaf values."""

from dataclasses import replace

import numpy as np
from msgspec import UNSET

from spinney import seeds
from spinney.errors import ProtocolError
from spinney.protocols.accounts.account import claims_of
from spinney.protocols.accounts.budget import summed_variance
from spinney.protocols.model import ForestModel
from spinney.protocols.private_forest.budget import bins_of, plan_of
from spinney.protocols.private_forest.messages import ForestJoinAsk, RandomLeavesAsk
from spinney.protocols.private_forest.settings import NAME, Settings
from spinney.protocols.rows.setup import agree_on_schema
from spinney.protocols.training import Phases, Training
from spinney.transport.channel import Channel
from spinney.trees.leaf_counts import NumberedLeaves, finish_trees, sharpen
from spinney.trees.public_trees import random_levels
from spinney.typing import Progress, silent


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,  # noqa: ARG001  all protocols take it; little is done here
    progress: Progress = silent,
) -> Training:
    """Draw the trees and count their leaves with the parties on the channel."""
    phases, n_parties = Phases(), len(channel.parties)
    with phases.phase("agreeing"):
        schema = agree_on_schema(channel)
        plan = plan_of(schema, settings, n_parties)  # raises before any party is asked
        channel.ask(ForestJoinAsk(settings, schema.digest(), n_parties))
    with phases.phase("counting"):
        progress("counting leaves", 0, 0)
        binning = bins_of(schema)
        generator = seeds.generator(settings.seed)
        levels = random_levels(
            binning.columns, settings.n_estimators, settings.max_depth, generator
        )
        leaves = NumberedLeaves(settings.n_estimators, levels, binning)
        reply = channel.sum(RandomLeavesAsk(settings, schema.digest(), n_parties, levels))
        if reply.counters.size != plan.n_counters:
            raise ProtocolError("A party's noisy counts do not match the leaves asked about.")
        counts = reply.counters.reshape(-1, plan.n_classes)
        variance = np.full(leaves.n_leaves, summed_variance(plan.noise, n_parties))
        forest, noise = finish_trees(leaves, counts, variance, settings.shrinkage)
        if settings.sharpness is not UNSET:
            forest = replace(forest, value=sharpen(forest, settings.sharpness))
    return Training(
        ForestModel(NAME, schema, forest, binning.bin_of_category, noise=noise),
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        {},
        None,
        settings.described(),
        claims_of(channel, settings.privacy),
    )
