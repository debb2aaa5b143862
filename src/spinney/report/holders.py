"""Who holds what of a forest over columns."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from spinney.protocols.model import ForestModel
from spinney.protocols.training import Roles
from spinney.report.report import Holder


def holders_of(
    roles: Roles, columns: Mapping[str, Sequence[str]], consent: Collection[str]
) -> tuple[Holder, ...]:
    """Return what each party holds of the forest, and whether it agrees to join its part.

    Parameters
    ----------
    roles
        Whose cut each node is.
    columns
        The names of each party's columns, where they are known.
    consent
        The parties that agree.
    """
    return tuple(
        Holder(
            name,
            tuple(columns.get(name, ())),
            int((roles.ownership.owner == number).sum()),
            name == roles.label_party,
            name in consent,
        )
        for number, name in enumerate(roles.parties)
    )


def split_columns(roles: Roles, model: ForestModel) -> dict[str, list[str]]:
    """Return the columns that each party's splits of a joined forest are by, as the schema says."""
    names, owner = model.schema.names, roles.ownership.owner
    return {
        party: [names[column] for column in np.unique(model.forest.feature[owner == number])]
        for number, party in enumerate(roles.parties)
    }
