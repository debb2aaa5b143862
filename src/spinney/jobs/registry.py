"""The protocols that job files can name, one line each.

Simulated and deployed jobs run the same spec: the same settings, party and `train`.
"""

from difflib import get_close_matches
from typing import Any, Final

from spinney.errors import SettingError
from spinney.protocols import (
    extra_trees,
    genetic_tree,
    horizontal_boosting,
    horizontal_forest,
    private_boosting,
    private_forest,
    private_tree,
    vertical_boosting,
    vertical_forest,
)
from spinney.protocols.spec import Spec

SPECS: Final[dict[str, Spec[Any]]] = {
    spec.name: spec
    for spec in (
        horizontal_forest.SPEC,
        horizontal_boosting.SPEC,
        private_tree.SPEC,
        private_forest.SPEC,
        private_boosting.SPEC,
        genetic_tree.SPEC,
        extra_trees.SPEC,
        vertical_forest.SPEC,
        vertical_boosting.SPEC,
    )
}


def spec_of(name: str) -> Spec[Any]:
    """Return the protocol with this name."""
    spec = SPECS.get(name)
    if spec is None:
        known = " or ".join(map(repr, SPECS))
        near = get_close_matches(name, SPECS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise SettingError(f"protocol must be {known}; got {name!r}.{hint}")
    return spec
