"""How many cuts a job of extra-trees draws for a node."""

from spinney.protocols.settings import ForestSettings
from spinney.trees.cuts import Drawing

_DRAWS = 6
_DRAWS_OF_FEW = 10  # in small nodes, of twice as many columns as are compared
_DRAWS_BY_ALL = 4  # where all columns are compared
_DRAWS_OF_ALL = 8  # in small nodes that compare all columns: there is no other to draw instead
_MANY_COLUMNS = 32  # of which enough are parted by fewer cuts
_FEW = ((8, 2),)  # nodes below 2^8 rows are small
_RESERVES = ((8, 2), (5, 4))  # for exchanged ones; below 2^5 rows four times as many columns
DRAWN_AT_MOST = max(_DRAWS_OF_ALL, 2 * _DRAWS_OF_FEW, *(times for _, times in _RESERVES))
"""The maximum number of candidates of a node for each feature that is compared."""


def drawing_of(settings: ForestSettings, n_columns: int) -> Drawing:
    """Return how many candidates the nodes of a job get."""
    n_compared = settings.n_slots(n_columns)
    privacy = settings.privacy
    if privacy is not None and not privacy.randomises_labels:
        return Drawing(
            n_compared
        )  # every candidate costs a part of epsilon, so there are no spares
    if settings.thresholds == "exchanged":
        return Drawing(n_compared, reserves=_RESERVES)  # the cut lies between the node's values
    if n_compared == n_columns:
        few = _DRAWS_BY_ALL if n_columns > _MANY_COLUMNS else _DRAWS_OF_ALL
        return Drawing(n_compared, _DRAWS_BY_ALL, few)
    return Drawing(n_compared, _DRAWS, _DRAWS_OF_FEW, _FEW)
