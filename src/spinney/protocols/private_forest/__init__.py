"""A private forest in one secure sum: trees drawn at random, all of the budget on their leaves.

What S3 leaves on the table (`shared/PRIVACY.md`, E): a split chosen in private costs budget at
every level; a split drawn at random within public ranges costs nothing (Jagannathan et al. 2009,
*A Practical Differentially Private Random Decision Tree Classifier*). Only leaves are counted, all
trees' at once; an inner node's counts are sums of its leaves', so that shrinking leaves towards
their parents (Agarwal et al. 2022) costs nothing either.

| paper | here |
|---|---|
| T trees of depth d | `n_estimators`, `max_depth`: drawn by the coordinator, from `seed` |
| epsilon / T for a tree | one vector of all leaves, which a record moves by T: `DiscreteLaplace` |
| lambda of the shrinkage | `shrinkage` standard deviations of a node's noise, in rows |

**Who learns what.** Everyone learns the trees, which owe nothing to any row, and the noisy class
counts of their leaves, summed over parties. Without secure sums the coordinator sees each party's,
each with that party's own whole noise. It sees each party's schema, that it joins, and its claims.
**Who never learns what.** No exact count of rows, classes, gaps or categories leaves a party. A
share of noise leaves its party under a mask or not at all.

**Rounds and bytes.** Schemas 1, joining 1, then one question about the data; claims 1. Its reply
has 8 bytes for each of trees x 2^depth x classes counters.
"""

from spinney.protocols.private_forest.coordinator import train
from spinney.protocols.private_forest.messages import ASKS, SUMMED
from spinney.protocols.private_forest.party import Party
from spinney.protocols.private_forest.settings import NAME, Settings
from spinney.protocols.private_forest.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "SUMMED", "Party", "Settings", "train"]
