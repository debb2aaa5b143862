"""How good is a model? Histograms of its scores at the parties, with noise paid from ledgers.

A party scores its rows with the finished model and counts them by class and by score. The counts
carry noise, their price stands in the ledger before it is drawn, and only their sum over parties
is opened. Every measure follows from the noisy counts alone, so it costs nothing more: accuracy,
AUC, log loss, Brier score, calibration, the confusion matrix, and rates by subgroup; for numbers
the mean absolute error and the RMSE. Each has a 95 % interval that covers both the noise and the
choice of the rows (`measures`).

| number of classes | histograms (share of epsilon) | cells that one record is in |
|---|---|---|
| two | class by score (all; with subgroups 1/2) | 1 |
| more | for each class, its rows and the others by score (1/2) | one for each class |
| any, with subgroups; or more than two | subgroup, class and prediction (1/2) | 1 |
| none: a number | subgroup and absolute error (all) | 1 |

The bins of scores follow from the model (`cells`), so no row decides them. With several models,
one for each fold, a row is scored by the model that did not train on it: one histogram holds all
folds, and a row is in it once.

**Who learns what.** Everyone learns histograms of scores by class, with noise, summed over
parties. With `per_party` the coordinator sees each party's histograms with that party's own whole
noise. It sees that a party takes part, and its claims. **Who never learns what.** No exact count
leaves a party, and nobody learns which rows were scored. A share of noise leaves its party only
under a mask.

**Rounds and bytes.** One question with the model, and one about claims. Up: 8 bytes for each cell.
"""

from spinney.protocols.private_evaluation.budget import plan_of
from spinney.protocols.private_evaluation.coordinator import evaluate
from spinney.protocols.private_evaluation.measures import PrivateQuality
from spinney.protocols.private_evaluation.messages import ASKS, SUMMED
from spinney.protocols.private_evaluation.party import Party
from spinney.protocols.private_evaluation.settings import NAME, Settings, digest_of, fold_of

__all__ = [
    "ASKS",
    "NAME",
    "SUMMED",
    "Party",
    "PrivateQuality",
    "Settings",
    "digest_of",
    "evaluate",
    "fold_of",
    "plan_of",
]
