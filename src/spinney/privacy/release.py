"""The values a party counts and the values it may release: `Exact`, then `Noised`.

Only a mechanism makes `Noised` from `Exact`, and it takes a `Charge` for it. Messages carry plain
integers; the message contract says for each whether it is exact. Noise in shares leaves a party
only under a mask (`OnlyMasked`).

A `Charge` proves that the ledger has written the cost of a release to disk. Only the ledger makes
one, and it pays for one release. `Mechanism.release` is the only place that joins charge and noise.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import cache
from threading import Lock
from typing import Any, ClassVar, Final, NoReturn, Self, cast, final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InternalError, ProtocolError, SettingError
from spinney.privacy.budget import Cost
from spinney.typing import Integers


@dataclass(frozen=True, slots=True, init=False)
class Shares:
    """Noise in shares: the shares of any `honest` parties are already the whole noise.

    Every party adds a share, so the sum carries more noise than promised (standard deviation times
    sqrt(parties / honest)); the other parties' knowledge of their own shares does not weaken it.

    Parameters
    ----------
    parties
        How many parties add a share: K.
    honest
        How many of them are promised to be honest and to stay to the end: t. Default: half of
        them, rounded up. A party that drops out counts as dishonest.
    """

    parties: int
    honest: int

    def __init__(self, parties: int, honest: int | None = None) -> None:
        for name, value in (("parties", parties), ("honest", honest)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise SettingError(f"{name} must be a whole number; got {value!r}.")
        honest = (parties + 1) // 2 if honest is None else honest
        if parties < 1 or not 1 <= honest <= parties:
            raise SettingError(
                f"honest must be between 1 and the number of parties; got honest={honest} of "
                f"parties={parties}."
            )
        if parties == honest == 2:
            raise SettingError(
                "For two parties, honest must be 1: each knows its own share and can subtract it, "
                "so the other's share alone must be the whole noise. Set honest=1."
            )
        object.__setattr__(self, "parties", parties)
        object.__setattr__(self, "honest", honest)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Values:
    """Integers that numpy does not accept as an array, and that print only their shape."""

    values: Any

    def _keep(self, values: NDArray[Any]) -> None:
        """Keep a read-only view, so that values cannot change after they are paid for."""
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
            f"{type(self).__name__} is not an array; use its `values` if you mean to."
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Exact(_Values):
    """Integers computed from a party's rows: true counts, scores or labels. Never sent directly."""

    values: Integers

    def __post_init__(self) -> None:
        self._keep(_integers(self.values, "Exact"))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Noised(_Values):
    """Integers that a mechanism has randomised and a charge has paid for.

    With `shares` they hold only a part of the noise: the sum over parties may be seen, one party's
    values may not, so they leave the party under a mask.
    """

    values: Integers
    shares: Shares | None = None

    def __post_init__(self) -> None:
        self._keep(_integers(self.values, "Noised"))


@final
class LedgerToken:
    """The token that the ledger shows to issue a charge. It is a singleton."""

    __slots__ = ()

    def __new__(cls) -> Self:
        """Raise: the only token already exists."""
        raise InternalError("The ledger's token cannot be made a second time.")


_LEDGER_TOKEN: Final[LedgerToken] = object.__new__(LedgerToken)  # for privacy.ledger alone


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class Charge:
    """Proof that a cost is on the ledger; it pays for one release.

    Attributes
    ----------
    cost
        The cost that was paid.
    entry
        The entry of the ledger that records it.
    reason
        What it pays for, in words.
    """

    cost: Cost
    entry: str
    reason: str
    _unspent: Lock = field(repr=False)  # acquired once and never released: atomic between threads

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
        """Pay for a release of this cost, or raise before anything is drawn.

        A mechanism calls this first in `release`.
        """
        if not self.cost.covers(cost):
            raise InternalError(
                f"The charge for {self.reason} does not cover the release: it paid "
                f"{_in_words(self.cost)}, the release costs {_in_words(cost)}."
            )
        if not self._unspent.acquire(blocking=False):
            raise InternalError(
                f"The charge for {self.reason} has already paid for a release. "
                f"A repeated question is answered with the stored reply."
            )


class Mechanism(ABC):
    """Noise and cost of one kind of release; a frozen dataclass of its parameters."""

    __slots__ = ()
    norm: ClassVar[str]  # the norm of the mechanism's sensitivity

    @abstractmethod
    def cost(self, n_values: int = 1) -> Cost:
        """Return the cost of one release of `n_values` numbers together."""

    @abstractmethod
    def _randomised(self, values: Integers) -> Integers:
        """Return the values with fresh randomness; only `release` calls it, after payment."""

    def _check(self, values: Integers) -> None:  # noqa: B027 - most take any integers
        """Raise for values that the mechanism cannot take, before anything is paid."""

    @final
    def release(self, exact: Exact, charge: Charge) -> Noised:
        """Spend the charge, draw once, and return values that may leave the party.

        A repeated question gets the stored result; another draw would need another charge, because
        the two could be averaged.
        """
        if not isinstance(exact, Exact) or not isinstance(charge, Charge):
            raise InternalError("A release takes Exact values and the ledger's Charge.")
        self._check(exact.values)
        charge.spend(self.cost(exact.values.size))
        return Noised(self._randomised(exact.values), getattr(self, "shares", None))

    @final
    def parameters(self) -> dict[str, str]:
        """Return the parameters that determine noise and cost, as exact text for the ledger."""
        facts: dict[str, Any] = {"mechanism": type(self).__name__, "norm": self.norm}
        facts |= asdict(cast("Any", self))
        facts |= facts.pop("shares", None) or {}  # parties and honest
        return {name: str(value) for name, value in facts.items()}


def _in_words(cost: Cost) -> str:
    return f"{cost.measure.value} {cost.amount} (delta {cost.delta}) per {cost.unit.value}"


def _integers(values: Any, kind: str) -> Integers:
    """Return the values as 64-bit integers; raise for floats instead of rounding."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InternalError(f"{kind} holds integers only; got {array.dtype}.")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise InternalError(f"{kind} holds 64-bit signed integers; a value is too large.")
    return array.astype(np.int64, copy=False)


class OnlyMasked:
    """Counters with a share of the noise. No message can carry them unmasked."""

    def __init__(self, noised: Noised) -> None:
        if noised.shares is None:
            raise InternalError("Counters with the whole noise need no mask.")
        self.values = noised.values
        self.shares = noised.shares

    def pack(self, *_: bytes) -> NoReturn:
        """Raise: values with too little noise are never sent unmasked."""
        raise ProtocolError(
            "This party's noise is a share, which hides nothing by itself: its counts may leave "
            "only under a mask, and the question came without one. Use secure_sum=True."
        )

    packed_size = unpacked_size = unpack = pack


def shares_in(reply: object) -> Shares | None:
    """Return how the noise of a reply is shared among parties; None if it is not."""
    kind: Any = type(reply)
    for name in _names(kind):
        value = getattr(reply, name)
        found = value.shares if isinstance(value, OnlyMasked) else shares_in(value)
        if found is not None:
            return found
    return None


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of a dataclass's fields; none for values of other types."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
