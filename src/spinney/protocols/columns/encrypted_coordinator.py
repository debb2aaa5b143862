"""Growing over columns if only one party may know the labels, by homomorphic encryption (S2, 4.3).

S2 leaves open how clients would compute impurities of encrypted labels. Here the data flow is that
of SecureBoost (Cheng et al. 2019). The label party keeps the key. The others add up its ciphertexts
for every node, column and cell, pack the sums, refresh them, and send them back. The label party
decrypts, finds the best cuts of all columns, and answers with the chosen cuts only.

Labels are encrypted once per forest. A class is a one in its own field; a target is its fixed-point
number. Fields are as wide as the heaviest tree needs, so no sum overflows into the next field.

**Who learns what.** The label party learns, for every other party's column drawn for a node, how
many rows and which label sums are in each cell, how many cells there are, and whether they are
categories or hold missing values; not the column's name, values or cuts. The coordinator carries
ciphertexts, sees counts of rows in cells, and learns the choices: whose column, by number, and at
which cell. Feature parties learn which of their cuts were chosen, and which rows are together in a
node. That alone reveals labels (the report measures it), and encryption cannot prevent it.
**Who never learns what.** Nobody but the label party learns a label, a sum of labels or a gain. The
label party never returns a decrypted number. It opens the sums of a level once, and only sums that
their parties signed for this run. In every column they must add up to the label party's own counts
of the node. At the first sums that do not fit it ends the job and erases the key, in the same words
and after the same work, whatever was wrong; nothing of the job is answered after that, also not
after a restart, and another run has another key. So forged sums are no oracle. Feature parties add
up only ciphertexts that the label party signed, send a level's sums once, under fresh randomness,
and make only cuts that the label party chose and signed.
What remains: a feature party can sign sums of an invented column, and its choice, with one category
per row, tells it the labels of 254 rows of a node. A label party can encrypt other numbers than
labels, and so read which rows are in a cell.

**Rounds and bytes.** The encrypted labels once: about 270 bytes (Okamoto-Uchiyama) or 512
(Paillier) per row. A level takes 3 rounds; a feature party sends one ciphertext for some 30 to 100
cells, and a few bits for each cell's rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.protocols.columns.encrypted_messages import (
    ChooseAsk,
    ChooseReply,
    CutAsk,
    Foreign,
    SumsAsk,
)
from spinney.protocols.columns.growing import Offered
from spinney.protocols.columns.growth import Coordination
from spinney.protocols.columns.messages import SplitAsk
from spinney.protocols.columns.seat import UNSIGNED, Signed
from spinney.transport.channel import Ask
from spinney.trees.partition import NO_TURNS


class EncryptedCoordination(Coordination):
    """One job with encrypted labels, level by level."""

    def grow(self) -> None:
        """Grow one level: feature parties send sums, the label party chooses, rows are split."""
        drawn = self.keys.draw()
        offers = [self.owners.offered(drawn, party) for party in range(len(self._names))]
        others = [name for name in self._names if name != self.label_party]
        sums: dict[str, Ask[Any]] = {
            name: SumsAsk(
                self.job.digest,
                self.depth,
                self.newest,
                offers[self._names.index(name)][0],
                self.fresh,
            )
            for name in others
        }
        replies = self.ask(sums) if sums else {}
        self.fresh = UNSIGNED
        own_offer, own_place = offers[self._names.index(self.label_party)]
        foreign = tuple(
            Foreign(offer.n_slots, place, replies[name])
            for name in others
            for offer, place in [offers[self._names.index(name)]]
        )
        ask = ChooseAsk(self.job.digest, self.depth, self.newest, own_offer, own_place, foreign)
        choice: ChooseReply = self.ask({self.label_party: ask})[self.label_party]
        winner, column = self._winners_of(choice, others, drawn.column, offers)
        asks = self._cut_asks(choice, winner, dict(zip(others, choice.signed or (), strict=False)))
        before = {**sums, self.label_party: ask}
        splits = self.ask(asks, before) if asks else {}
        merged = {}
        flags = choice.child_open.reshape(-1, 2)
        for name, reply in splits.items():
            party = self._names.index(name)
            own = flags[winner[winner >= 0] == party].reshape(-1)
            merged[party] = replace(reply, child_open=own)
        turns = choice.turns if isinstance(choice.turns, np.ndarray) else NO_TURNS
        self._take(self._merged(winner, column, merged, (choice.seal,), turns))

    def _winners_of(
        self,
        choice: ChooseReply,
        others: Sequence[str],
        drawn: NDArray[np.int32],
        offers: Sequence[tuple[Offered, NDArray[np.int32]]],
    ) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
        """Return the number of the party that wins each node, and the columns chosen."""
        if choice.winner.shape != (self.n_open,) or np.any(choice.winner >= len(others)):
            raise ProtocolError("The label party's choices do not match the nodes asked about.")
        number = {index: self._names.index(name) for index, name in enumerate(others)}
        number |= {-2: self._names.index(self.label_party), -1: -1}
        winner = np.array([number.get(int(one), -1) for one in choice.winner], np.int16)
        column = np.empty(int((winner >= 0).sum()), np.int32)
        for at, node in enumerate(np.flatnonzero(winner >= 0)):
            offered, place = offers[winner[node]]
            slot = int(choice.slot[node])
            if not 0 <= slot < offered.n_slots[node]:
                raise ProtocolError("The label party chose columns that were not offered.")
            begin = int(offered.n_slots[:node].sum(dtype=np.int64))
            column[at] = drawn[node, place[begin + slot]]
        return winner, column

    def _cut_asks(
        self, choice: ChooseReply, winner: NDArray[np.int16], signed: Mapping[str, Signed]
    ) -> dict[str, Ask[Any]]:
        asks: dict[str, Ask[Any]] = {}
        for party, name in enumerate(self._names):
            node = np.flatnonzero(winner == party)
            if not node.size:
                continue
            if name == self.label_party:
                asks[name] = SplitAsk(self.job.digest, self.depth, node)
                continue
            asks[name] = CutAsk(
                self.job.digest, self.depth, node, choice.slot[node], choice.cut[node],
                choice.missing_left[node], choice.bin_set[node], signed.get(name, UNSIGNED),
            )  # fmt: skip
        return asks
