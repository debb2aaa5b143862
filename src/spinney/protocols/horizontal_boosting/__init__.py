"""Gradient boosting over parties that hold different rows of the same columns, bit for bit pooled.

Trees grow in batches: all trees of a batch start from the same scores, draw their own rows and
columns, grow together, one level per round, and are added at once, each with its share of the
learning rate. A batch of one tree is boosting as everybody knows it.

Everything that is summed is a whole number, so that any dealing of rows gives the same model: a
row's score is fixed point (2^-24); a table takes the place of the exponential function; gradients
are rounded to 8 bits (16 for squared error) of their public bound, up or down by a hash of the
tree's and the row's keys, so that their mean is kept. A leaf's value is computed once, rounded to
fixed point, and parties only add it.

**Who learns what.**

| who | learns |
|---|---|
| coordinator | each party's schema, and its quality counts (a confusion matrix, or error sums) |
| | unless masked: the loss of each party's training rows after each batch |
| | sums over parties: counts of rows, missing values, categories and classes; |
| | the sum of targets (regression); the counts from which bin edges are found |
| | the histograms of every node that is not derived from its parent and sibling: |
| | rows, gradients and curvatures of the loss; |
| | the loss of all rows before each batch, of validation rows apart |
| | single cells, exactly: those at which bins end, as in a horizontal forest |
| | of a party that trains alone its bin edges, instead of those counts |
| | a gradient is a prediction minus a label: a cell of one row gives away that row's label, |
| | and later trees are more equations about the same rows |
| parties | the same sums, from which they derive the trees and check them (`verified`) |
| readers of the model | the edges that its trees use, the rows of each node, and the leaf values |

**Who never learns what.** Nobody but its party sees a row, a row's key, its score or which node it
stands in. Without `secure_sum` the channel adds up replies that it could read. No noise is added,
so none of this is differentially private. `min_samples_leaf` bounds what the model itself shows.

**Exact.** The model equals that of one table with all rows, in any order, as long as no row, id
included, is at two parties (see `spinney.tables.table`): keys decide how a row's gradients are
rounded and which trees draw it.

**Rounds and bytes.** Schemas 1, facts 1, edges at most 3, targets 1 (regression), each level of a
batch 1, curves 1 (unless masked), quality 1: at most `max_depth` x batches + 8. A reply holds nodes
x features x cells x 3 sums; of two siblings only the smaller is asked about. Under masks a sum
takes as many bits as the parents' sums, which all have been told, allow. Questions are derived, not
sent: a question tells what the one before it came to.
"""

from spinney.protocols.boosted.settings import Settings
from spinney.protocols.horizontal_boosting.coordinator import train
from spinney.protocols.horizontal_boosting.messages import ASKS, SUMMED
from spinney.protocols.horizontal_boosting.party import Party
from spinney.protocols.horizontal_boosting.settings import NAME
from spinney.protocols.horizontal_boosting.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "SUMMED", "Party", "Settings", "train"]
