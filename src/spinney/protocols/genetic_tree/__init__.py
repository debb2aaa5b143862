"""Personal trees from a population of structures that parties evolve together (S4).

*FedGA-Tree: Federated Decision Tree using Genetic Algorithm*, Algorithm 1. A structure says which
column each node of a tree splits on. Parties fit structures to their own rows; the coordinator
breeds the structures that score well over all parties. In the end each party picks the structure
that scores best on its own rows, and keeps thresholds and leaves to itself.

| paper | here |
|---|---|
| client, server | party, coordinator |
| P, G, c, r, r_l, s, m_1, m_2, K | see `GeneticSettings` |
| d, d^i | `depth`, and the depth that a party's cross-validation chooses |
| T_d^i | `Home.structure`: the columns of CART's tree on all rows of a party |
| n^i | a party's weight: its rows, with noise if `size_epsilon` is given |
| vote_1, vote_2 | `all_rows`, `elitism`; they are summed |
| f_t | the mean score of a structure, weighted by rows (`channel.sum`) |
| active clients | `active`: the parties named in a question; the others answer zeros |

Two changes make the scores reliable (`validation="rotating"`; "fixed" is the paper's way). Every
generation is scored on different rows; survivors are scored again and keep the mean of their
scores. Equal structures are kept only once. With a single division of the rows, the population
overfits within a few generations. If only a part of the parties is asked, each scores on more
divisions of its rows, in inverse proportion to that part. All active parties score a late joiner's
structure, not only the late joiner.

**Who learns what.** The coordinator learns each party's schema and each active party's structure;
only sums over the active parties of depths, votes and scores, weighted by rows; and how many
parties keep their own tree. With `binning="pooled"` it also learns what `horizontal_forest` says
about facts and edges: summed counts, and the single cells at which bins end. Parties learn the
same, and whose structure is whose, because they derive the search and check it (`verified`).
**Who never learns what.** Nobody but its party sees thresholds, leaves, a score, which tree it
keeps, or how well that tree predicts. Masks hide an active party only among the active parties: in
a sum over two, each knows the other's part. Without `secure_sum` the channel adds up replies that
it could read. Structures and sums of scores are exact functions of the rows: nothing is
differentially private.

With `privacy`, structures evolve from noisy counts instead: see `genetic_tree.noisy` and
`accounts.account`.

**Rounds and bytes.** Schemas 1, bins up to 4 ("pooled"), depths 1, structures 1 and 1 more for
every generation with a late joiner, votes 1 (regression), scores G, choosing 1. A question about
scores has 2 bytes per gene, for P to 2 P structures of 2^d - 1 genes; a reply has 8 bytes per
structure.
"""

from spinney.protocols.genetic_tree.coordinator import Evolved, train
from spinney.protocols.genetic_tree.messages import ASKS, SUMMED, EvolvingJob
from spinney.protocols.genetic_tree.party import Party
from spinney.protocols.genetic_tree.settings import NAME, Settings
from spinney.protocols.genetic_tree.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "SUMMED", "Evolved", "EvolvingJob", "Party", "Settings", "train"]
