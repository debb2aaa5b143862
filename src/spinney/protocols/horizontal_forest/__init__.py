"""A random forest over parties that hold different rows of the same columns (S1).

Kalloori and Klingler (2022), *Cross-Silo Federated Learning based Decision Trees*, Algorithm 1,
with changes that make it exact and fast: all trees grow together, one level per round; histograms
are integer counts over shared bins. The paper's own histograms, Algorithms 2 and 3, are
`binning="adaptive"`.

| paper | here |
|---|---|
| client, global server | party, coordinator |
| S, a bootstrap of D | Poisson bootstrap weights, by a hash of (seed, tree, the row's own key) |
| h_f = {(r, p, n)} | `Counts`: cells by class; r is a cell's place among the shared bins |
| b, number of bins | `max_cells` in a node, zoomed into the `max_bins` of the table |
| H_merge | the sum of the parties' counts (`channel.sum`) |

**Who learns what.**

| who | learns |
|---|---|
| coordinator | each party's schema, and its quality counts (a confusion matrix, or error sums) |
| | sums over parties: counts of rows, missing values, categories and classes; |
| | the histograms of every node; the counts from which bin edges are found |
| | with `binning="quantiles"` therefore single cells, exactly: those at which bins end, up to |
| | `max_bins` - 1 per column, or all values of a column that has no more; not whose they are |
| | of a party that trains alone its bin edges, instead of those counts |
| | where no drawn column tells a node's rows apart: its histograms over more columns, and over |
| | finer cells, down to all columns and bins (`trees.frontier`) |
| | with `binning="adaptive"` each party's own histograms, bin means included |
| | where parties count themselves out of small nodes (`min_own_rows`, `trees.own_rows`): that |
| | some do, and, as parent minus children, what those parties held in the parent together |
| parties | the same sums, from which they derive the forest and check it (`verified`) |
| | so all bin edges: the roundest number between two cells, which is itself a cell if there |
| | is no rounder number (whole numbers, close neighbours) |
| | with `binning="adaptive"` each party's own histograms |
| readers of the model | the edges that its trees use |

**Who never learns what.** Nobody but its party sees a row, a row's key or which node it stands in.
Without `secure_sum` the channel adds up replies that it could read. No noise is added, so none of
this is differentially private.

| with `privacy` | instead, the coordinator learns | protected |
|---|---|---|
| `noisy_histograms` | noisy counts of nodes, leaves (`row_forest.noisy_rows`); | one record more |
| | no facts, no scores | |
| `perturbed_input` | all of the above, about noisy rows, and their number | a record's content |
| both | that a party joins, and its claims (`accounts.account`) | |

**Exact.** The forest equals that of one table with all rows, in any order. For separate tables this
holds as long as no row, id included, is at two parties (see `spinney.tables.table`), or with
`bootstrap=False`: keys only decide how often a tree draws a row.

**A node closes only if nothing can be cut**, as in scikit-learn: it stays open for another round
and draws on, first 8 times as many columns in finer cells, then all columns in all bins. Where all
rows of a node are in one cell, only that cell is divided when it draws on. A path
loses at most 3 rounds so; nodes below begin with more columns instead.

**Rounds and bytes.** Schemas 1, facts 1, edges at most 3, each level 1, nodes that draw on 3,
quality 1: at most depth + 10, where a level's counters fit into one message. They are up to trees x
rows x columns drawn x 2 cells, of 16 bytes for numbers and of 4 for each class; every 256 MB
(`message_limit`) of them is a question of its own, because a party holds them in memory before they
are packed. A reply holds nodes x features x cells x classes counters of about 1
to 4 bits each. A question tells what the one before it came to: the sum of the replies, with about
a bit more for each counter.
"""

from spinney.protocols.horizontal_forest.coordinator import train
from spinney.protocols.horizontal_forest.messages import ASKS, SUMMED
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.horizontal_forest.settings import NAME, Settings
from spinney.protocols.horizontal_forest.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "SUMMED", "Party", "Settings", "train"]
