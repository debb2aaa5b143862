"""Prediction over columns in one round: leaf sets from every party, intersected (S2, Alg. 3, 4).

Each party passes its rows down its own part: its own cuts send a row to one side, other cuts to
both. It sends which leaves a row may reach, for all trees and rows at once. The intersection over
parties is one leaf in each tree (Proposition 1).

A row that a party does not have is treated there as a row with all values missing: every cut has a
side for those.

**Who learns what.** Whoever intersects (the party that holds the labels, or the coordinator)
learns each party's side of every cut that a row may meet, by number, and which leaf the row is in.
The label party learns the leaves and answers with predictions, which the coordinator sees.
If the parts are to be joined, a party that consents gives its whole part away.
**Who never learns what.** Feature parties learn nothing. The coordinator never sees a leaf's value
or a threshold; if the label party intersects, the coordinator only carries the sets. In a deployed
job the label party predicts once, for the rows that were matched, from leaf sets that their parties
signed. If the coordinator intersects, it could make up leaves, and would get the values of as many
as there are rows.

**Rounds and bytes.** One round of leaf sets, and one message to the label party. A party sends one
bit for each of its own cuts that a row may meet.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney.errors import PartyLostError, PolicyError, ProtocolError
from spinney.protocols.columns.model import PartialModel, join_model
from spinney.protocols.columns.seat import UNSIGNED, Seat, Signed, Unsigned, all_signed
from spinney.protocols.model import ForestModel
from spinney.protocols.rows.quality import QualityReply
from spinney.protocols.training import Roles
from spinney.tables.columns import Columns
from spinney.transport import codec
from spinney.transport.channel import Ask, Channel
from spinney.transport.messages import message
from spinney.trees.partial import LeafSets, Ownership, PartialForest, intersect
from spinney.trees.threads import thread_count
from spinney.typing import Floats, Integers

_SETS = "reply with leaf sets"  # what is signed


@message
class LeavesReply:
    """Which leaves a party's rows may reach."""

    sets: LeafSets
    signed: Signed | Unsigned = UNSIGNED


@message
class LeavesAsk(Ask[LeavesReply]):
    """Which leaves may your rows reach, according to your own cuts?"""

    n_judged: int  # how many training rows, evenly spaced; 0: the rows to be predicted
    reveals: ClassVar[str] = "for every row the sides of the cuts it may meet, by number"
    reply_type: ClassVar[type[Any]] = LeavesReply


@message
class Named:
    """The leaves of rows, given directly or as the leaf sets of all parties."""

    leaves: NDArray[np.uint32]  # (n_trees, n_rows); empty if the sets are given
    sets: tuple[LeafSets, ...]  # of the other parties, in the order of `ownership.owner`
    ownership: Ownership | None
    place: int  # the place of the label party's own sets among all
    signed: tuple[Signed, ...] | Unsigned = UNSIGNED  # the sets, by their parties

    def found(self, own: LeafSets, n_threads: int) -> NDArray[np.uint32]:
        """Return the leaves; the label party calls this and adds its own sets."""
        if self.ownership is None:
            return self.leaves
        every = [*self.sets[: self.place], own, *self.sets[self.place :]]
        return intersect(self.ownership, every, n_threads)


@message
class ValuesReply:
    """The prediction for every row: the mean over trees, or what their sum says."""

    values: Floats  # (n_rows, n_outputs)


@message
class ValuesAsk(Ask[ValuesReply]):
    """What does the forest predict for the rows in these leaves?"""

    named: Named
    reveals: ClassVar[str] = "the predictions"
    reply_type: ClassVar[type[Any]] = ValuesReply


@message
class JudgeAsk(Ask[QualityReply]):
    """How well does the finished forest predict the rows in these leaves?"""

    named: Named
    n_judged: int
    reveals: ClassVar[str] = "a confusion matrix, or error sums, over the rows that all share"
    reply_type: ClassVar[type[Any]] = QualityReply


@message
class PartReply:
    """A party's part of the forest, as the bytes of a file."""

    data: bytes


@message
class PartAsk(Ask[PartReply]):
    """Will you give away your part of the forest, so that it can be joined with the others?"""

    reveals: ClassVar[str] = (
        "the party's part of the forest: all its cuts, and leaves if it has any"
    )
    reply_type: ClassVar[type[Any]] = PartReply


def signed_sets(seat: Seat, sets: LeafSets, *about: str | int) -> LeavesReply:
    """Return leaf sets that are signed for the label party."""
    bare = LeavesReply(sets)
    return LeavesReply(sets, seat.sign(_SETS, *about, codec.encode(bare)))


def require_signed_sets(seat: Seat, named: Named, part: PartialForest, *about: str | int) -> None:
    """Raise unless leaf sets are the other parties' own, and cuts of this party are its own."""
    ownership, signed = named.ownership, named.signed or ()
    if ownership is None:
        return
    if tuple(sorted(one.party for one in signed)) != seat.others or len(named.sets) != len(signed):
        raise ProtocolError("The leaf sets are not those of the other parties of this run.")
    for one, sets in zip(signed, named.sets, strict=True):
        seat.check(one.party, one, _SETS, *about, codec.encode(LeavesReply(sets)))
    same = np.array_equal(ownership.owner == named.place, part.feature >= 0)
    if not same or not np.array_equal(ownership.left, part.left):
        raise ProtocolError("The question gives this party's cuts to another party.")


def ownership_of(owners: PartialForest) -> Ownership:
    """Return the trees' links and owners; in `owners` a node's column is its party's number."""
    return Ownership(owners.tree_start, owners.left, owners.feature.astype(np.int16), owners.depths)


class PredictingParty:
    """A party's side of a prediction: its part, and its columns of the rows to be predicted.

    `row_of` gives the party's own row for each row to be predicted, -1 if the party does not have
    it. None: the rows are the same.
    """

    def __init__(
        self,
        model: PartialModel,
        features: Columns | None,
        n_rows: int,
        *,
        row_of: Integers | None = None,
        consents: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self._model = model
        self._features = features
        self._n_rows = n_rows
        self._row_of = row_of
        self._consents = consents
        self._n_threads = thread_count(n_jobs)

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case LeavesAsk():
                return LeavesReply(self._sets())
            case ValuesAsk():
                return ValuesReply(leaf_values(self._model, self._leaves(ask.named)))
            case PartAsk():
                if not self._consents:
                    raise PolicyError(
                        "This party has not consented to give away its part of the forest. Ask it "
                        "to consent."
                    )
                return PartReply(self._model.to_bytes())
        raise ProtocolError(f"A party in prediction does not answer {type(ask).__name__}.")

    def _leaves(self, named: Named) -> NDArray[np.uint32]:
        own = self._sets() if named.ownership is not None else None
        return named.leaves if own is None else named.found(own, self._n_threads)

    def _sets(self) -> LeafSets:
        return self._model.leaf_sets(self._values(), self._n_threads)

    def _values(self) -> NDArray[np.float32]:
        if self._features is None:
            n = self._n_rows if self._row_of is None else self._row_of.size
            return np.zeros((0, n), np.float32)
        values = self._features.values(slice(None))
        if self._row_of is None:
            return values
        found = np.full((len(values), self._row_of.size), np.nan, np.float32)
        held = self._row_of >= 0
        found[:, held] = values[:, self._row_of[held]]
        return found


def leaf_values(model: PartialModel, leaves: NDArray[np.uint32]) -> Floats:
    """Return the prediction for each row: the mean over trees, or their sum if boosted."""
    part = model.part
    if part.value.shape[1] == 0:
        raise ProtocolError("This party has no leaf values: it does not hold the labels.")
    if leaves.shape[0] != part.n_trees or int(leaves.max(initial=0)) >= part.n_nodes:
        raise ProtocolError("The question names leaves that the forest does not have.")
    out = np.zeros((leaves.shape[1], part.value.shape[1]))
    for leaf in leaves:
        out += part.value[leaf]
    if model.boosted is not None:
        return model.boosted.predicted(out)
    out /= part.n_trees
    return out


def name_leaves(roles: Roles, channel: Channel, n_judged: int, n_jobs: int | None) -> Named:
    """Ask for leaf sets, in one round, and return the leaves or the sets."""
    missing = [name for name in roles.parties if name not in channel.parties]
    if missing:
        raise PartyLostError(
            f"Party {missing[0]!r} is absent, and nobody else has its cuts. Every party of "
            "the forest must take part in a prediction."
        )
    place = roles.parties.index(roles.label_party)
    no_leaves = np.zeros((0, 0), np.uint32)
    if roles.intersect_at == "label_party":
        others = [name for name in roles.parties if name != roles.label_party]
        replies = channel.ask(LeavesAsk(n_judged), to=others) if others else {}
        sets = tuple(replies[name].sets for name in others)
        signed = all_signed(replies[name].signed for name in others)
        return Named(no_leaves, sets, roles.ownership, place, signed)
    found = channel.ask(LeavesAsk(n_judged), to=roles.parties)
    every = [found[name].sets for name in roles.parties]
    return Named(intersect(roles.ownership, every, thread_count(n_jobs)), (), None, place)


def predict_rows(roles: Roles, channel: Channel, *, n_jobs: int | None = None) -> Floats:
    """Return the prediction for every row that the parties were given."""
    named = name_leaves(roles, channel, 0, n_jobs)
    return channel.ask(ValuesAsk(named), to=(roles.label_party,))[roles.label_party].values


def join_parts(channel: Channel) -> ForestModel:
    """Ask every party for its part and return the whole forest; any party can refuse."""
    parts = {
        name: PartialModel.from_bytes(reply.data, name=name)
        for name, reply in channel.ask(PartAsk()).items()
    }
    return replace(join_model(parts, tuple(parts)), consent=tuple(parts))
