"""Replies that carry noise: whole noise leaves as it is, shares of noise leave under a mask only."""

import numpy as np
from numpy.typing import NDArray

from spinney.privacy.release import (
    Noised,
    OnlyMasked,
    Shares,
)
from spinney.transport.channel import Vector
from spinney.transport.messages import message


@message
class NoisyReply:
    """Counters with noise, vector after vector; they may be negative."""

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
    """What a party in a secure sum answers; its wrapper masks it."""

    counters: OnlyMasked


def noisy_reply(data: bytes, shares: Shares | None) -> NoisyReply | ShareReply:
    """Return stored counters as the reply that may leave: whole noise as it is, shares masked."""
    counters = np.frombuffer(data, np.int64).copy()
    return ShareReply(OnlyMasked(Noised(counters, shares))) if shares else NoisyReply(counters)


class Signed:
    """What the questions answered with noise share."""

    __slots__ = ()

    def to_ring(self, reply: NoisyReply | ShareReply) -> tuple[Vector, ...]:
        """Return the integers as they are masked: modulo 2**64, for they may be negative."""
        return (reply.counters.values,) if isinstance(reply, ShareReply) else reply.vectors()
