"""Noise for nodes or leaves in groups: each group has its own noise, rows and price."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spinney.privacy.release import Charge, Exact, Mechanism
from spinney.privacy.scopes import Scope, Spend
from spinney.typing import Integers


@dataclass(frozen=True)
class Group:
    """Nodes or leaves that get the same noise."""

    noise: Mechanism
    scopes: tuple[Scope, ...]
    members: Integers

    def spend(self, what: str, n_values: int) -> Spend:
        """Return the price of releasing `n_values` numbers of every member."""
        return Spend(what, self.noise, self.scopes, n_values=n_values * self.members.size)


@dataclass(frozen=True)
class GroupedNoise:
    """Numbers that get noise in groups; `owner` is the node or leaf of each number."""

    groups: Sequence[Group]
    owner: Integers
    exact: Callable[[], Integers]

    @cached_property
    def places(self) -> list[Integers]:
        """The positions of each group's numbers."""
        return [np.flatnonzero(np.isin(self.owner, group.members)) for group in self.groups]

    def spends(self, what: str) -> list[Spend]:
        """Return what every group's noise costs."""
        pairs = zip(self.groups, self.places, strict=True)
        return [group.spend(what, at.size // group.members.size) for group, at in pairs]

    def drawn(self, charges: tuple[Charge, ...]) -> bytes:
        """Count, and add the noise that has been paid for."""
        values = self.exact().ravel()
        noised = np.empty(values.size, np.int64)
        for group, at, charge in zip(self.groups, self.places, charges, strict=True):
            noised[at] = group.noise.release(Exact(values[at]), charge).values
        return noised.tobytes()
