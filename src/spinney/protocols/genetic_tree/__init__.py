"""Personal trees from a population of structures that parties evolve together (S4).

*FedGA-Tree: Federated Decision Tree using Genetic Algorithm*, Algorithm 1. A structure says which
column each node of a tree asks about. Parties fit structures to their own rows; the coordinator
breeds those that do well over all parties; in the end each party picks the one that does best for
it, and keeps thresholds and leaves to itself.

| paper | here |
|---|---|
| client, server | party, coordinator |
| P, G, c, r, r_l, s, m_1, m_2, K | see `GeneticSettings` |
| d, d^i | `depth`, and the depth a party's cross-validation chooses |
| T_d^i | `Home.structure`: CART's tree on all rows of a party, columns only |
| n^i | a party's weight: its rows, with noise if `size_epsilon` is given |
| vote_1, vote_2 | `all_rows`, `elitism`; they are summed |
| f_t | the mean score of a structure, weighed by rows (`channel.sum`) |
| active clients | `active`: the parties named in a question; the others answer zeros |

Two changes make the scores mean what they say (`validation="rotating"`; "fixed" is the paper's
way): every generation is judged by other rows, survivors again, and by the mean of their scores;
and structures that read alike live once. A single division of rows is learnt by heart within few
generations. Where a part of the parties is asked, each judges by more of its rows, as many times as
the others are more. A late joiner's structure is judged by all who are active, not by itself alone.

**Who learns what.** The coordinator learns each party's schema and each active party's structure;
of depths, votes and scores only sums over the active parties, weighed by rows; and how many parties
keep their own tree. With `binning="pooled"` it also learns what `horizontal_forest` says of facts
and edges: summed counts, and the single cells at which bins end. Parties learn all structures.
**Who never learns what.** Nobody but its party sees thresholds, leaves, a score, which tree it
keeps, or how well that does. Masks hide an active party only among the active: of a sum over two,
each knows the other's part. Without `secure_sum` the channel adds up replies that it could read.
Structures and sums of scores are exact functions of the rows: nothing is differentially private.

With `privacy` structures evolve from noisy counts instead: see `genetic_tree.noisy` and `accounts.account`.

**Rounds and bytes.** Schemas 1, bins up to 4 ("pooled"), depths 1, structures 1 and 1 more for
every generation with a late joiner, votes 1 (regression), scores G, choosing 1. A question about
scores carries 2 bytes a gene, P to 2 P structures of 2^d - 1 genes; a reply 8 bytes a structure.
"""

from spinney.protocols.genetic_tree.coordinator import Evolved, train
from spinney.protocols.genetic_tree.messages import ASKS, SUMMED, EvolvingJob
from spinney.protocols.genetic_tree.party import Party
from spinney.protocols.genetic_tree.settings import NAME, Settings
from spinney.protocols.genetic_tree.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "SUMMED", "Evolved", "EvolvingJob", "Party", "Settings", "train"]
