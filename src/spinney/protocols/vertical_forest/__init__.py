"""A random forest over parties that hold different columns of the same rows (S2).

Liu et al. (2019), *Federated Forest*, Algorithms 1, 2, 5 and 6; prediction (3, 4, 7, 8) is in
`columns.prediction`. All trees grow together, one level in two rounds, or in three with
encrypted labels (`columns.encrypted_coordinator`).

| paper | here |
|---|---|
| client i, master | party, coordinator |
| F'_i, D' | `Offered`: a party's own columns among those drawn for a node; `Job.settings.seed` |
| p_i, f*_i | `GainReply`: the best gain, and which of the offered columns gives it |
| left and right subtree's sample indices | `Partition`: a bit for each row of a split node |
| T_i, T | `PartialModel`; the forest joined from all of them |
| encrypted label y | `labels="shared"`: class numbers or fixed-point targets, not encrypted |

**Who learns what.** With shared labels every party, and the coordinator that carries them, learns
the encoded label of every row: two classes can be guessed from their frequency. Every party learns
which rows are together in a node, and so in a leaf. The coordinator learns how many rows and
columns each party has, who holds the labels, how many classes there are or how finely the target's
range is divided, the samples, each party's best gain in each node and the number of its column, the
partitions, and when a column cannot split a node any more. At the end it learns that every party
has its part, and a confusion matrix, or error sums, from the label party; with randomised labels
also its claims.
**Who never learns what.** Nobody but its party learns a cell, a threshold, a column's name or its
bins, or which row id a row has. Parties do not learn whose cut split a node, or which columns of
others were drawn. The label party computes the leaf values and keeps them. A party makes the cuts
of a level once, and the label party scores the forest once, on the job's rows; both refuse a second
time. A run has one job, a level has one version and one offer of columns, and no node has fewer
rows than the job's rules allow. Between organisations the parties seal every level with a key that
the coordinator lacks (`columns.level_seal`): it cannot put rows of its choice into a node.
It can still choose which columns are offered, and with shared labels whose cut is made.

**Rounds and bytes.** Holdings, labels, start: 3. Each level 2. Finish 1, scoring 2: at most
2 x depth + 8. At each level a party receives 1 bit per row of each split node, and 2 to 3 bytes for
each node and own column drawn. It sends 1 bit per row of the nodes that it splits, and 10 bytes per
open node.
"""

from spinney.protocols.vertical_forest.coordinator import train
from spinney.protocols.vertical_forest.party import ASKS, Party
from spinney.protocols.vertical_forest.settings import NAME, Settings
from spinney.protocols.vertical_forest.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "Party", "Settings", "train"]
