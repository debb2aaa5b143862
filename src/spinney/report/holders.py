"""Which party holds which splits of a vertical forest."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from spinney.protocols.model import ForestModel
from spinney.protocols.training import Roles
from spinney.report.facts import Holder


def holders_of(
    roles: Roles, columns: Mapping[str, Sequence[str]], consent: Collection[str]
) -> tuple[Holder, ...]:
    """Return what each party holds of the forest, and whether it consents to joining its part.

    Parameters
    ----------
    roles
        The party that owns each node's cut.
    columns
        The names of each party's columns, if known.
    consent
        The parties that consent.
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
    """Return the schema's names of the columns that each party's splits use in a joined forest."""
    names, owner = model.schema.names, roles.ownership.owner
    return {
        party: [names[column] for column in np.unique(model.forest.feature[owner == number])]
        for number, party in enumerate(roles.parties)
    }
