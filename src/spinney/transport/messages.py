"""Messages that are really frozen: nobody can set or add an attribute.

Values derived from a message, for example the open nodes of a question, are computed by whoever
needs them and stored beside the message, never in it.
"""

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from functools import partial
from threading import RLock
from typing import Any, Generic, TypeVar, cast, dataclass_transform, overload
from weakref import ref

Owner = TypeVar("Owner")
Value = TypeVar("Value")


@dataclass_transform(frozen_default=True)
def message(kind: type[Owner]) -> type[Owner]:
    """Make a class a frozen dataclass with slots: a message, or a part of one."""
    made: Any = dataclass(frozen=True, slots=True, weakref_slot=True)(kind)
    made.__setattr__ = made.__delattr__ = (
        _refuse  # dataclasses' own forget that slots renew a class
    )
    return cast("type[Owner]", made)


def _refuse(owner: object, name: str, *_: object) -> None:
    """Refuse to write into a message."""
    raise FrozenInstanceError(f"{type(owner).__name__} is a message: {name!r} cannot be changed.")


class Beside(Generic[Value]):
    """Values stored beside objects for their lifetime; objects are compared by identity."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[ref[Any], Value]] = {}
        self._making = RLock()  # parties that answer at the same time make a value once

    def get(self, owner: Any, make: Callable[[], Value]) -> Value:
        """Return the value stored beside an object; make it if there is none."""
        key = id(owner)
        found = self._kept.get(key)
        if found is not None and found[0]() is owner:
            return found[1]
        with self._making:
            found = self._kept.get(key)
            if found is not None and found[0]() is owner:
                return found[1]
            value = make()
            self._kept[key] = (ref(owner, partial(self._forget, key)), value)
            return value

    def __contains__(self, owner: Any) -> bool:
        found = self._kept.get(id(owner))
        return found is not None and found[0]() is owner

    def _forget(self, key: int, gone: ref[Any]) -> None:
        # No lock: the collector may call this at any point, also where this thread holds one. At
        # worst another thread's new value is dropped, and made again.
        found = self._kept.get(key)
        if found is not None and found[0] is gone:
            self._kept.pop(key, None)


class kept_beside(Beside[Value], Generic[Owner, Value]):  # noqa: N801  used as `property` is
    """A property that is computed once for each message, and stored beside it."""

    def __init__(self, make: Callable[[Owner], Value]) -> None:
        super().__init__()
        self._make = make
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> "kept_beside[Owner, Value]": ...

    @overload
    def __get__(self, owner: Owner, kind: type[Any]) -> Value: ...

    def __get__(self, owner: Owner | None, kind: type[Any]) -> "kept_beside[Owner, Value] | Value":
        if owner is None:
            return self
        found = self._kept.get(id(owner))  # as in `get`, without a call for what is mostly there
        if found is not None and found[0]() is owner:
            return found[1]
        return self.get(owner, partial(self._make, owner))
