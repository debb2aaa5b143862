"""A private forest in one secure sum: random trees, with the whole budget spent on their leaves.

This improves on S3 (`shared/PRIVACY.md`, E): a split chosen with privacy costs budget at every
level, but a split drawn at random within public ranges costs nothing (Jagannathan et al. 2009,
*A Practical Differentially Private Random Decision Tree Classifier*). Only leaves are counted, for
all trees at once. An inner node's counts are the sums of its leaves' counts, so shrinking leaves
towards their parents (Agarwal et al. 2022) costs nothing either.

| paper | here |
|---|---|
| T trees of depth d | `n_estimators`, `max_depth`: drawn by the coordinator, from `seed` |
| epsilon / T for a tree | one vector of all leaves, changed by T by a record: `DiscreteLaplace` |
| lambda of the shrinkage | `shrinkage` standard deviations of a node's noise, in rows |

**Who learns what.** Everyone learns the trees, which do not depend on any row, and the noisy class
counts of their leaves, summed over parties. Without secure sums the coordinator sees each party's
counts with that party's own whole noise. It sees each party's schema, that it joins, and its
claims. **Who never learns what.** No exact count of rows, classes, missing values or categories
leaves a party. A share of noise leaves its party only under a mask.

**Rounds and bytes.** Schemas 1, joining 1, one question about the data, claims 1. The reply to the
question has 8 bytes for each of trees x 2^depth x classes counters.
"""

from spinney.protocols.private_forest.coordinator import train
from spinney.protocols.private_forest.messages import ASKS, SUMMED
from spinney.protocols.private_forest.party import Party
from spinney.protocols.private_forest.settings import NAME, Settings
from spinney.protocols.private_forest.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "SUMMED", "Party", "Settings", "train"]
