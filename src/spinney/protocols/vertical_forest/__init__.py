"""A random forest over parties that hold different columns of the same rows (S2).

Liu et al. (2019), *Federated Forest*, Algorithms 1, 2, 5 and 6; prediction (3, 4, 7, 8) is in
`vertical_forest.prediction`. All trees grow together, a level per two rounds; with encrypted labels, in
`vertical_forest.encrypted_coordinator`, it is three.

| paper | here |
|---|---|
| client i, master | party, coordinator |
| F'_i, D' | `Offered`: a party's own columns of those drawn for a node; `Job.settings.seed` |
| p_i, f*_i | `GainReply`: the best gain, and by which of the columns offered |
| left and right subtree's sample indices | `Partition`: a bit for each row of a split node |
| T_i, T | `PartialModel`; the forest that all of them make |
| encrypted label y | `labels="shared"`: class numbers or fixed-point targets, as they are |

**Who learns what.** With shared labels every party, and the coordinator that carries them, learns
the encoded label of every row: two classes can be guessed from their frequency. Every party learns
which rows stand together in a node, and so in a leaf. The coordinator learns how many rows and
columns each party has, who holds the labels, how many classes there are or how finely the target's
range is divided, the samples, each party's best gain in each node and the number of the column it
is by, the partitions, and when a column cannot split a node any more. At the end it learns that
every party has its part, and a confusion matrix, or error sums, from the label party; with
randomised labels also its claims.
**Who never learns what.** Nobody but its party learns a cell, a threshold, a column's name or its
bins, or which row id a row has. Parties do not learn whose cut parted a node, or which columns of
others were drawn. Leaf values are made at the label party and stay there. A party makes the cuts of
a level once, and the label party judges once, by the job's rows: otherwise it refuses.

**Rounds and bytes.** Holdings, labels, start: 3. A level 2. Finish 1, judging 2: at most
2 x depth + 8. A level brings a party 1 bit a row of each split node, and 2 to 3 bytes for each node
and own column drawn; it sends 1 bit a row of nodes that it splits, and 10 bytes an open node.
"""

from spinney.protocols.vertical_forest.coordinator import train
from spinney.protocols.vertical_forest.party import ASKS, Party
from spinney.protocols.vertical_forest.settings import NAME, Settings
from spinney.protocols.vertical_forest.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "Party", "Settings", "train"]
