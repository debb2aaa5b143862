"""A message inside another message: it is encoded when it travels, and decoded by who knows it."""

from typing import Any, TypeVar

from spinney.transport import codec

T = TypeVar("T")


class Carried:
    """A message, or the bytes of one whose type only its reader knows.

    This is not a dataclass: a codec would encode its fields instead of calling `pack`.
    """

    __slots__ = ("_data", "_message")

    def __init__(self, message: object = None, data: bytes | None = None) -> None:
        self._message = message
        self._data = data

    def open(self, kind: type[T], *, unpacked: int = codec.UNPACKED_LIMIT) -> T:
        """Return the message, checked against its type."""
        if self._message is None:
            self._message = codec.decode(self.pack(), kind, unpacked=unpacked)
        if not isinstance(self._message, kind):
            raise TypeError(f"This is not a {kind.__name__}.")
        return self._message

    def pack(self) -> bytes:
        """Return the message's frame."""
        if self._data is None:
            self._data = codec.encode(self._message)
        return self._data

    def packed_size(self) -> int:
        """Return the length of the frame without encoding."""
        return codec.encoded_size(self._message) if self._data is None else len(self._data)

    @classmethod
    def unpacked_size(cls, data: bytes) -> int:
        """Return the length of the frame: it stays encoded until it is opened."""
        return len(data)

    @classmethod
    def unpack(cls, data: bytes) -> "Carried":
        """Return a message that is not decoded yet."""
        return cls(data=data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Carried) and self.pack() == other.pack()

    __hash__: Any = None
