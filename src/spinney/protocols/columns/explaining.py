"""What each party's columns contribute to predictions, without showing a column to anybody.

The label party has what it takes to predict: every party's leaf sets, whose cut each node is, and
its own leaf values and rows of each node. From that follow Shapley values with parties as players:
cuts of parties outside a coalition send a row to both sides, in proportion to the rows of training.

**Who learns what.** The label party, what a prediction tells it, and no more. What it tells a party
about that party's contribution, or a customer about all of them, is its decision.
**Who never learns what.** Nobody learns another party's columns, thresholds or values.
"""

from collections.abc import Mapping

import numpy as np

from spinney.protocols.columns.model import PartialModel
from spinney.protocols.columns.prediction import LeavesAsk
from spinney.protocols.training import Roles
from spinney.transport.channel import Channel
from spinney.trees.partial import share_out
from spinney.typing import Floats


def contributions(roles: Roles, channel: Channel, label_part: PartialModel) -> dict[str, Floats]:
    """Return by party what its columns add to each row's score, (n_rows, n_outputs)."""
    replies = channel.ask(LeavesAsk(0), to=roles.parties)
    sets = [replies[name].sets for name in roles.parties]
    part = label_part.part
    cover = np.ascontiguousarray(part.moments[:, 0])
    found = share_out(roles.ownership, sets, cover, part.value)
    return dict(zip(roles.parties, found, strict=True))


def own_importances(parts: Mapping[str, PartialModel]) -> dict[str, Floats]:
    """Return by party each of its columns' share of the gain of all trees.

    The gain of a cut is known to its party or, if labels are encrypted, to the label party, which
    tells a party the gains of that party's own cuts.
    """
    gain = np.sum([model.part.gain for model in parts.values()], axis=0)
    found = {}
    for name, model in parts.items():
        own = model.part.feature >= 0
        found[name] = np.bincount(model.part.feature[own], gain[own], len(model.columns))
    total = sum(float(shares.sum()) for shares in found.values()) or 1.0
    return {name: shares / total for name, shares in found.items()}
