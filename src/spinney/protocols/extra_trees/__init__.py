"""Extremely randomised trees over parties that hold different rows of the same columns (S5).

Anonymous (2020), *Federated Extra-Trees with Privacy Preserving*, Algorithms 1 and 2, with changes
that make it exact, fast and less revealing: all trees grow together, one level per round; nobody
reveals the smallest and largest values of a node.

| paper | here |
|---|---|
| client, master | party, coordinator |
| F*, candidate features | those of `max_features` that split, and a reserve (`trees.cuts`) |
| v_min, v_max of a node | its public box: the bins of the table, cut by the path, and by cuts |
| | drawn above it that had rows on one side only (`trees.cuts.CutFrontier`) |
| v*, random threshold | a cut drawn by a hash of (seed, tree, node, feature): nothing is sent. |
| | It lies anywhere between bin edges, at one of 256 parts (`trees._kernels.parts`) |
| Sum_L, Sum_R | `Counts`: cells left, right and missing, by class |
| C_L, C_R | their sum over parties (`channel.sum`) |

**Who learns what.** The coordinator learns sums over parties: counts of rows, missing values,
categories, classes and magnitudes of numbers, and how many rows of each class stand on each side
of every drawn cut, which may lie inside a bin, so that a row alone in a node is known to a part of
a bin; where no drawn cut parts a node's rows, of more cuts and of more columns, down to all of
them. It sees each party's schema, and its quality counts (a confusion matrix, or error sums).
Parties learn the same sums, from which they derive the forest and check it (`verified`). With
`binning="quantiles"`, the estimators' default, all of them learn single cells,
exactly: those at which bins end, as in `horizontal_forest`. With `thresholds="exchanged"` all of
them also see each party's smallest and largest bin in every node: values of real records. Parties
may count themselves out of small nodes, as in `horizontal_forest`.
**Who never learns what.** Nobody but its party sees a row, a row's key or which node it stands in.
Without `secure_sum` the channel adds up replies that it could read.

| `privacy` | instead, the coordinator learns | protected |
|---|---|---|
| `randomised_labels` | the above, about randomised labels; no scores | a label, against everyone |
| noise on counts | noisy counts of cuts (`extra_trees.noisy_coordinator`), | one record more |
| | and of leaves as in `row_forest.noisy_rows` | |
| both | that a party joins, and its claims (`accounts.account`) | |

**Rounds and bytes.** Schemas 1, facts 1, edges at most 3 ("quantiles"), each level 1, nodes that
draw on 3, quality 1: at most depth + 10, where a level's counts fit into one message (exchanged
thresholds: each level 2; `privacy`: joining 1, claims 1). A reply holds nodes
x candidates x 2 x classes counters of a few bits each.
"""

from spinney.protocols.extra_trees.coordinator import train
from spinney.protocols.extra_trees.messages import ASKS, SUMMED
from spinney.protocols.extra_trees.party import Party
from spinney.protocols.extra_trees.settings import NAME, Settings
from spinney.protocols.extra_trees.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "SUMMED", "Party", "Settings", "train"]
