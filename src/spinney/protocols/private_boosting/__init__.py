"""Private boosting from noisy sums alone: nobody is trusted with an exact number.

Trees are drawn at random within public bins, as in a private forest, but one batch after another:
the leaves of each batch are counted as sums of gradients of what the batches before it left over.
With pure epsilon the first tree of each column counts classes instead: before the first tree the
gradients follow from them, and a record moves counts less than it moves gradients. Of numbers, and
with a delta, a smooth curve for each column is fitted beside the trees, all curves together
(`trees.curves`, `trees.curve_fit`), and residuals are clipped to less and less, as they fall.
After two passes over all columns their trees take the columns whose cuts have explained most, by
the sums that were released (`trees.column_scores`).
After Nori et al. 2021 (*Accuracy, interpretability, and differential privacy via explainable
boosting*) and Maddock et al. 2022 (*Federated boosted decision trees with differential privacy*);
neither paper's accounting is used.

| elsewhere | here |
|---|---|
| a shape function of a column (EBM) | the sum of the trees of that column: `method="cyclic"` |
| pairs, interactions | trees of two columns: `method="pairs"` |
| FAST, a choice of pairs | columns drawn by `ColumnScores`, from noisy sums alone |
| private quantile bins | `edges="private"`: noisy histograms, a tenth of the budget |
| sigma, mu | `accounts.budget.noise_of`: Laplace for epsilon, Gaussian for epsilon and delta |
| noisy sufficient statistics of a regression | moments and pulls of the terms of curves |
| Newton step | the mean between parent and own sums, given the noise (`trees.posterior`) |

**Who learns what.** Everyone learns, summed over parties and with noise: the rows of each class, or
in 256 equal cells of the target's range; the rows in 1,024 equal cells of every number's range; the
class counts, or the sums of gradients and curvatures in the leaves of every tree; for curves, the
sums of smooth functions of columns times gradients, of the products of two of these functions, and
how many residuals there are of every size; and what follows from them: the model. Without secure
sums the coordinator sees each party's numbers with that party's own whole noise. It sees each
party's schema, that it joins, and its claims. **Who never learns what.** No exact number about rows
leaves a party: no count, class, missing value, category or edge. How many rounds and trees there
are follows from the settings, never from rows. A share of noise leaves its party only under a mask.

**Rounds and bytes.** Schemas 1, joining 1, first facts 1, one for each batch of trees, claims 1;
by default at most 40. A reply has 8 bytes for each of trees x 2^depth x sums, where a leaf has two
sums, or one more than classes; the first one has 8 kB for each number. Of c columns with curves, at
most 3 c + 65 numbers are added to a reply, and once (3 c + 1)(3 c + 2) / 2.
"""

from spinney.protocols.noisy_boosting.settings import Settings
from spinney.protocols.private_boosting.coordinator import train
from spinney.protocols.private_boosting.messages import ASKS, SUMMED
from spinney.protocols.private_boosting.party import Party
from spinney.protocols.private_boosting.settings import NAME
from spinney.protocols.private_boosting.spec import SPEC

__all__ = ["ASKS", "NAME", "SPEC", "SUMMED", "Party", "Settings", "train"]
