"""Replies that carry noise: whole noise leaves unmasked, shares of noise leave only masked."""

import numpy as np
from numpy.typing import NDArray

from spinney.privacy.release import Noised, OnlyMasked, Shares
from spinney.transport.channel import Vector
from spinney.transport.messages import message


@message
class NoisyReply:
    """Counters with noise, one vector after another; they may be negative."""

    counters: NDArray[np.int64]

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.counters,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "NoisyReply":
        """Return the reply with these integers."""
        (counters,) = vectors
        return cls(counters)


@message
class ShareReply:
    """A party's reply in a secure sum; the wrapper around the party masks it."""

    counters: OnlyMasked


def noisy_reply(data: bytes, shares: Shares | None) -> NoisyReply | ShareReply:
    """Return stored counters as the reply that may leave: whole noise as is, shares only masked."""
    counters = np.frombuffer(data, np.int64).copy()
    return ShareReply(OnlyMasked(Noised(counters, shares))) if shares else NoisyReply(counters)


class Signed:
    """The shared part of questions that are answered with noise."""

    __slots__ = ()

    def to_ring(self, reply: NoisyReply | ShareReply) -> tuple[Vector, ...]:
        """Return the integers to mask: modulo 2**64, since they may be negative."""
        return (reply.counters.values,) if isinstance(reply, ShareReply) else reply.vectors()
