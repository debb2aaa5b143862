"""One private tree over parties that hold different rows of the same columns (S3).

Gubler (2023), *Secure and Interpretable: Federated Differentially Private Decision Trees*, with
corrected accounting (`private_tree.budget`) and two more learners. The tree grows one level per
round; leaves are counted at the end.

| paper | here |
|---|---|
| Q, a node; theta = (j, t) | an open node; a cut of a column's cells |
| Algorithm 3, Gamma shares of Laplace noise | `DiscreteLaplace` in shares, under secure sums |
| Algorithm 4, G(Q, theta) | `noisy_impurity`, over equal parts of a node's public box |
| Algorithm 5 | `method="histograms"`: all columns' cells, e_level / p each |
| Algorithm 6 | `method="save_budget"`: bounds of sensitivity 1, e_bounds / p each |
| leaf_prop, bounds_prop | `leaf_share`, `bounds_share` |

Algorithm 6 asks column after column, p rounds per node. Here a node's bounds are one question, and
the columns that remain after it are another. "propose" lets every party propose a cut from its own
rows and counts only the sides of those cuts (after LocalRNM, Liu et al. 2020). "distilled" boosts
many drawn trees from noisy sums as `private_boosting` does, grows one tree that imitates them on
rows drawn from noisy shares of each column (`noisy_boosting.distilling`), which costs nothing, and
counts its leaves with a fifth of the budget. "noisy_max" chooses among all cuts at once, by one
noisy maximum of monotone scores; its cost does not depend on the number of columns. Its scores look
ahead at the root: a cut is scored by the impurity that is left after the best further cut of both
its sides. So it finds two columns that are informative only together, at no further cost.

**Who learns what.** Everyone learns the tree and the noisy class counts of its leaves. The
coordinator, and the parties, which check it (`verified`), also learn, summed over parties: with
"distilled" all that `private_boosting` tells: noisy class counts, the rows in 1,024 equal cells of
every number's range with noise, and noisy class counts or sums of gradients in the leaves of drawn
trees; with "histograms" noisy histograms of every open node; with "save_budget" noisy bounds for
every column, and noisy histograms of some; with "propose" each party's own choice of a cut, and
noisy counts of both sides of those cuts. **With "noisy_max" the coordinator alone learns exact
histograms of every open node**, for the root by pairs of columns, and the noise of the choice: it
is trusted with them, parties cannot check it, and the claims say that nothing protects a record
from it. It sees each party's schema, that it joins, and its claims. **Who never learns what.**
Nobody else sees an exact number. A party's own counts leave it only under a mask or with the
party's own whole noise.

**Rounds and bytes.** Schemas 1, joining 1, each level 1 ("histograms", "noisy_max") or 2, leaves 1,
claims 1; with "distilled" first facts 1 and at most 36 batches in place of levels. A reply has 8
bytes for each of nodes x columns x (bins + 1) x classes counters; with "propose", for each of nodes
x proposals x 2 x classes; with "noisy_max" also for the cuts, and at the root for pairs of cells,
if they fit in 16 MB; with "distilled", for each leaf of a drawn tree and class.
"""

from spinney.protocols.private_tree.coordinator import train
from spinney.protocols.private_tree.messages import ASKS, SUMMED
from spinney.protocols.private_tree.party import Party
from spinney.protocols.private_tree.settings import NAME, Settings
from spinney.protocols.private_tree.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "SUMMED", "Party", "Settings", "train"]
