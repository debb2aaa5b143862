"""Numbers of nodes or leaves, noised in groups: each has its own noise, its rows, and its price."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spinney.privacy.release import (
    Charge,
    Exact,
    Mechanism,
)
from spinney.privacy.scopes import Scope, Spend
from spinney.typing import Integers


@dataclass(frozen=True)
class Group:
    """Nodes or leaves that get the same noise."""

    noise: Mechanism
    scopes: tuple[Scope, ...]
    members: Integers

    def spend(self, what: str, n_values: int) -> Spend:
        """Return the price of releasing so many numbers of every member."""
        return Spend(what, self.noise, self.scopes, n_values=n_values * self.members.size)


@dataclass(frozen=True)
class GroupedNoise:
    """Numbers to be noised, in groups: `owner` says whose each of them is."""

    groups: Sequence[Group]
    owner: Integers
    exact: Callable[[], Integers]

    @cached_property
    def places(self) -> list[Integers]:
        """Where each group's numbers stand."""
        return [np.flatnonzero(np.isin(self.owner, group.members)) for group in self.groups]

    def spends(self, what: str) -> list[Spend]:
        """Return what every group's noise costs."""
        pairs = zip(self.groups, self.places, strict=True)
        return [group.spend(what, at.size // group.members.size) for group, at in pairs]

    def drawn(self, charges: tuple[Charge, ...]) -> bytes:
        """Count, and add the noise that was paid for."""
        values = self.exact().ravel()
        noised = np.empty(values.size, np.int64)
        for group, at, charge in zip(self.groups, self.places, charges, strict=True):
            noised[at] = group.noise.release(Exact(values[at]), charge).values
        return noised.tobytes()
