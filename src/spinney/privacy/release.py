"""What leaves a party, by how it is protected: `Exact`, then `Noised`, then `Masked`.

The three are different types and nothing turns one into another by itself: a mechanism makes
`Noised` from `Exact` and takes a `Charge` for it, a mask makes `Masked` from either. A message
field of type `Masked` therefore cannot hold an exact count, and the type checker says so.

A `Charge` proves that the ledger has written the cost of a release to disk. Only the ledger makes
one, and it pays for one release.
"""

from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, NoReturn, Self, final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InternalError
from spinney.privacy.budget import Cost
from spinney.typing import Integers

Residues = NDArray[np.uint32] | NDArray[np.uint64]  # integers modulo 2**32 or 2**64


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Values:
    """Integers that numpy cannot take for an array and that print as their shape only."""

    values: Any

    def _keep(self, values: NDArray[Any]) -> None:
        """Hold a read-only view, so that what was paid for cannot change afterwards."""
        view = values.view()
        view.flags.writeable = False
        object.__setattr__(self, "values", view)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values, which is public."""
        shape: tuple[int, ...] = self.values.shape
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise InternalError(
            f"{type(self).__name__} is not an array; use its values where that is meant."
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Exact(_Values):
    """Integers computed from a party's rows: true counts, scores or labels. Never sent as such."""

    values: Integers

    def __post_init__(self) -> None:
        self._keep(_integers(self.values, "Exact"))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Noised(_Values):
    """Integers that a mechanism has randomised and a charge has paid for."""

    values: Integers

    def __post_init__(self) -> None:
        self._keep(_integers(self.values, "Noised"))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Masked(_Values):
    """One party's summand under masks: uniform to everyone until all summands are added."""

    values: Residues

    def __post_init__(self) -> None:
        values: Any = self.values
        if not isinstance(values, np.ndarray) or values.dtype not in (np.uint32, np.uint64):
            raise InternalError("Masked holds an array of 32- or 64-bit unsigned integers.")
        self._keep(values)


@final
class LedgerToken:
    """What the ledger shows to issue a charge. There is one, and no second can be made."""

    __slots__ = ()

    def __new__(cls) -> Self:
        """Refuse: the one token exists."""
        raise InternalError("The ledger's token cannot be made a second time.")


_LEDGER_TOKEN: Final[LedgerToken] = object.__new__(LedgerToken)  # for privacy.ledger alone


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class Charge:
    """Proof that a cost is on the ledger; it pays for one release.

    Attributes
    ----------
    cost
        What was paid.
    entry
        Where the ledger has written it.
    reason
        What it pays for, in words.
    """

    cost: Cost
    entry: str
    reason: str
    _unspent: Lock = field(repr=False)  # taken once and never given back: atomic between threads

    def __init__(self) -> None:
        raise InternalError("Only a ledger makes a Charge: ask it to charge the release.")

    @classmethod
    def _issued_by(cls, token: LedgerToken, *, cost: Cost, entry: str, reason: str) -> "Charge":
        """Return a new charge; for `spinney.privacy.ledger`, once the entry is on disk."""
        if token is not _LEDGER_TOKEN:
            raise InternalError("Only a ledger makes a Charge: ask it to charge the release.")
        charge = object.__new__(cls)
        facts = {"cost": cost, "entry": entry, "reason": reason, "_unspent": Lock()}
        for name, value in facts.items():
            object.__setattr__(charge, name, value)
        return charge

    def spend(self, cost: Cost) -> None:
        """Pay for a release of this cost, or refuse before anything is drawn.

        A mechanism calls this first thing in `release`.
        """
        if not self.cost.covers(cost):
            raise InternalError(
                f"The charge for {self.reason} does not cover the release: it paid "
                f"{_in_words(self.cost)}, the release costs {_in_words(cost)}."
            )
        if not self._unspent.acquire(blocking=False):
            raise InternalError(
                f"The charge for {self.reason} has paid for a release already. "
                f"A repeated question is answered with the stored reply."
            )


def _in_words(cost: Cost) -> str:
    return f"{cost.measure.value} {cost.amount} (delta {cost.delta}) per {cost.unit.value}"


def _integers(values: Any, kind: str) -> Integers:
    """Return the values as 64-bit integers; floats are refused, not rounded."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InternalError(f"{kind} holds integers only; got {array.dtype}.")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise InternalError(f"{kind} holds 64-bit signed integers; a value is too large.")
    return array.astype(np.int64, copy=False)
