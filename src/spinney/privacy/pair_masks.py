"""Masks between parties of which none may be missing: they cancel in the sum over all.

Each two parties share a secret: the agreement of their keys on the roster, for these settings. From
it they derive the key of their mask in a round, from the round's number and all that parties must
agree on for their masks to cancel. So no round needs keys of its own: nothing is dealt, sealed or
opened. Keys of different rounds, or of different things asked in a round, are independent. Rounds
are numbered within one `PairMasks`: a second one of the same keys and settings would begin anew, so
there is one for each key pair, which lives in memory alone.

A mask hides one vector. A party remembers a fingerprint of the vector that it has masked in the
newest round, and masks nothing in earlier ones.
"""

from collections.abc import Sequence
from hashlib import blake2b

from spinney.errors import ProtocolError
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.keys import KEY_BYTES, KeyPair, SumSettings, Words, derive_key, fingerprint

MaskKey = tuple[bytes, bool]  # the key of a stream, and whether the stream is subtracted


class PairMasks:
    """What a party shares with each other, for all rounds of a job."""

    def __init__(self, settings: SumSettings, name: str, key: KeyPair) -> None:
        agreed, roster = settings.agreed(), settings.roster
        self.name = name
        self._pairs = [
            (_secret_of_two(key.shared_with(public), agreed, name, other), name > other)
            for other, public in zip(roster.names, roster.public_keys, strict=True)
            if other != name
        ]
        self._own = secret_bytes(KEY_BYTES)  # of fingerprints, which nobody else sees
        self._newest = (0, b"")  # the newest round, and the fingerprint of its only vector

    def keys(self, number: int, agreed: bytes, vectors: Sequence[Words]) -> list[MaskKey]:
        """Return the keys of this party's masks in a round.

        They serve one vector, and parties that agree: two vectors under one mask reveal their
        difference.
        """
        newest, masked = self._newest
        if number < max(newest, 1):
            raise ProtocolError(f"Round {number} is over. A mask hides one vector.")
        seen = fingerprint(_key_of_round(self._own, number, b""), agreed, vectors)
        if number == newest and seen != masked:
            raise ProtocolError(
                f"Round {number} already masks another vector. A mask hides one vector; ask for "
                "a new round."
            )
        self._newest = (number, seen)
        return [(_key_of_round(secret, number, agreed), below) for secret, below in self._pairs]


def _secret_of_two(shared: bytes, agreed: bytes, name: str, other: str) -> bytes:
    """Return the secret of two parties of a job, from the agreement of their keys."""
    return derive_key(
        shared, "pair masks of a job", job=agreed, round_number=0, names=(name, other)
    )


def _key_of_round(secret: bytes, number: int, agreed: bytes) -> bytes:
    """Return a key of a round; `secret` is uniformly random, so a keyed hash is enough."""
    told = number.to_bytes(8, "little") + agreed
    return blake2b(told, key=secret, digest_size=KEY_BYTES, person=b"spinney masks").digest()
