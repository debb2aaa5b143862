"""Gradient boosting over parties that hold different columns of the same rows, bit for bit pooled.

The data flow is that of SecureBoost (Cheng et al. 2019): the party with the labels knows what is
left to correct in each row, the others sum it over the cells of their columns, and the best cut of
all columns splits a node. Everything that is summed is a whole number, as in `horizontal_boosting`:
rows' scores are fixed point, gradients are rounded to 8 bits (16 for squared error) by a hash of
the tree's and the row's keys. So the trees do not depend on who holds which column, or on whether
labels are encrypted.

| SecureBoost | here |
|---|---|
| active party, passive party | the label party, the others |
| g_i, h_i; [[g_i]], [[h_i]] | a gradient and a curvature, side by side in one encrypted number |
| instance space of a node | `Partition`: a bit for each row of a split node |
| lookup table | `PartialModel`: each party's cuts |

A party with labels keeps the score of every row, and derives the leaf values itself; nobody sends
them. With encrypted labels only the label party does; for each tree it encrypts the gradients of
the rows that the tree draws anew, under the job's key.

**Who learns what.** With shared labels every party, and the coordinator that carries them, learns
the encoded label of every row. Every party learns which rows are together in a node, and so in a
leaf, of every tree; trees of later batches correct what the earlier ones left, so that rows that
stay together have similar labels. The coordinator learns how many rows and columns each party has,
who holds the labels, how many classes there are or the range of the target, each party's best gain
in each node and the number of its column, the partitions, when a column cannot split a node any
more, and the loss of all rows before each batch, of validation rows apart. At the end it learns
that every party has its part, and a confusion matrix, or error sums, from the label party; with
randomised labels also its claims. With encrypted labels it is as in
`columns.encrypted_coordinator`: the label party learns the rows, gradients and curvatures in each
cell of the others' columns, the coordinator carries ciphertexts. With `monotonic_cst` every party
learns of each cut in which direction its column is limited. Samples and columns are drawn by the
job's seed, which all parties know.
**Who never learns what.** Nobody but its party learns a cell, a threshold, a column's name (unless
`monotonic_cst` names it) or its bins, or which row id a row has. Parties do not learn whose cut
split a node. The label party keeps the leaf values. With encrypted labels nobody but the label
party learns a label, a gradient, a score or a gain. The label party answers a batch once; the rules
of `columns.encrypted_coordinator` (sums that are signed, refreshed, opened once, and checked
against own sums; a key that is erased at the first that do not fit) hold for every level of every
tree. Between organisations the parties seal every level with a key that the coordinator lacks.
What remains: encryption does not hide who shares a leaf, and the first tree's gradients are the
labels: a party that invents a column with one category per row gets 254 rows of a node sorted by
label (`columns.encrypted_coordinator`).

**Rounds and bytes.** Holdings, labels, start: 3. A batch: the loss 1, each level 2, or 3 with
encrypted labels. Finish 1, scoring 1. So at most batches x (3 x depth + 1) + 5. A level is 1 bit
per row and tree, to and from each party. Encrypted gradients take about 270 bytes for each row that
a tree draws (Okamoto-Uchiyama); a feature party sends one ciphertext for about 14 cells.
"""

from spinney.protocols.vertical_boosting.coordinator import train
from spinney.protocols.vertical_boosting.party import ASKS, Party
from spinney.protocols.vertical_boosting.settings import NAME, VerticalSettings
from spinney.protocols.vertical_boosting.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "Party", "VerticalSettings", "train"]
