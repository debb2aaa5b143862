"""Messages that are frozen in fact: no attribute can be set or added, whoever holds one.

What follows from a message, such as the open nodes that a question is about, is derived by whoever
needs it and kept beside the message, never in it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeVar, cast, dataclass_transform, overload
from weakref import ref

Owner = TypeVar("Owner")
Value = TypeVar("Value")


@dataclass_transform(frozen_default=True)
def message(kind: type[Owner]) -> type[Owner]:
    """Make a class a frozen dataclass with slots: a message, or a part of one."""
    return cast("type[Owner]", dataclass(frozen=True, slots=True, weakref_slot=True)(kind))


class Beside(Generic[Value]):
    """Values that are kept beside objects, as long as those live; objects are told by identity."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[ref[Any], Value]] = {}
        self._lock = Lock()

    def get(self, owner: Any, make: Callable[[], Value]) -> Value:
        """Return the value kept beside an object, made now if there is none."""
        key = id(owner)
        found = self._kept.get(key)
        if found is not None and found[0]() is owner:
            return found[1]
        value = make()
        with self._lock:
            self._kept[key] = (ref(owner, partial(self._forget, key)), value)
        return value

    def _forget(self, key: int, gone: ref[Any]) -> None:
        with self._lock:
            found = self._kept.get(key)
            if found is not None and found[0] is gone:
                del self._kept[key]


class kept_beside(Generic[Owner, Value]):  # noqa: N801  used as `property` is
    """A property that is computed once for each message, and kept beside it."""

    def __init__(self, make: Callable[[Owner], Value]) -> None:
        self._make = make
        self._values: Beside[Value] = Beside()
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type[Any]) -> "kept_beside[Owner, Value]": ...

    @overload
    def __get__(self, owner: Owner, kind: type[Any]) -> Value: ...

    def __get__(self, owner: Owner | None, kind: type[Any]) -> "kept_beside[Owner, Value] | Value":
        return self if owner is None else self._values.get(owner, partial(self._make, owner))
