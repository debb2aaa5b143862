"""Keys of a secure sum (secure aggregation): the roster, shared secrets and derived keys.

A key pair is X25519. HKDF-SHA256 derives every key from a secret, a purpose, the job, the round and
the names of its parties, so no two uses share a key. `spinney.privacy.streams` expands a derived
key into a stream that masks numbers.

Nothing here keeps state or communicates. Private keys never appear in a `repr` or an error.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256, Hash
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.poly1305 import Poly1305
from numpy.typing import NDArray

from spinney.errors import ProtocolError, SettingError
from spinney.privacy.entropy import secret_bytes

Counters = NDArray[np.integer]
Words = NDArray[np.unsignedinteger]  # counters modulo 2^32 (uint32) or 2^64 (uint64)

_LENGTH = struct.Struct("<q")
KEY_BYTES = 32
_SHA256 = SHA256()
MAX_PARTIES = 63  # a set of parties fits the bits of one signed integer


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An X25519 key pair; make one with `fresh` or `of`."""

    private: bytes = field(repr=False)
    public: bytes
    _key: X25519PrivateKey = field(repr=False, compare=False)

    @classmethod
    def fresh(cls) -> Self:
        """Return a new pair from the operating system's randomness."""
        return cls.of(secret_bytes(KEY_BYTES))

    @classmethod
    def of(cls, private: bytes) -> Self:
        """Return the pair of a private key."""
        if len(private) != KEY_BYTES:
            raise SettingError(
                f"A private key must have {KEY_BYTES} bytes; got {len(private)}. "
                "Make one with KeyPair.fresh()."
            )
        key = X25519PrivateKey.from_private_bytes(private)
        return cls(private, key.public_key().public_bytes_raw(), key)

    def shared_with(self, public: bytes) -> bytes:
        """Return the secret that both this pair and the owner of `public` can compute."""
        try:
            other = X25519PublicKey.from_public_bytes(public)
            return self._key.exchange(other)
        except ValueError:
            # A wrong length, or one of the few points that give every key the same secret.
            raise ProtocolError(
                "A public key is not usable for X25519. Ask its party for the right one."
            ) from None


@lru_cache(maxsize=16)  # every sum of a job names the same sets
def _bits_of(roster: "Roster", names: frozenset[str]) -> int:
    return sum(1 << roster.position(name) for name in names)


@dataclass(frozen=True, slots=True)
class Roster:
    """The parties of a job and their public keys, by name in sorted order; make one with `of`.

    The position of a name is the party's number in shares and in the sign of masks.
    """

    names: tuple[str, ...]
    public_keys: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.names) <= MAX_PARTIES:
            raise SettingError(
                f"A secure sum needs between 2 and {MAX_PARTIES} parties; got {len(self.names)}."
            )
        if len(self.names) != len(self.public_keys) or list(self.names) != sorted(set(self.names)):
            raise SettingError("A roster names each party once, sorted, with one key each.")
        for name, public in zip(self.names, self.public_keys, strict=True):
            if len(public) != KEY_BYTES:
                raise SettingError(
                    f"The public key of party {name!r} must have {KEY_BYTES} bytes; "
                    f"got {len(public)}."
                )
        if len(set(self.public_keys)) < len(self.public_keys):
            raise SettingError("Two parties have the same public key. Every party needs its own.")

    @classmethod
    def of(cls, public_key_of: Mapping[str, bytes]) -> Self:
        """Return the roster of these parties."""
        names = tuple(sorted(public_key_of))
        return cls(names, tuple(public_key_of[name] for name in names))

    def __len__(self) -> int:
        return len(self.names)

    def position(self, name: str) -> int:
        """Return a party's number; raise if the name is not on the roster."""
        if name not in self.names:
            raise ProtocolError(
                f"Party {name!r} is not on the roster of this job. It has: {', '.join(self.names)}."
            )
        return self.names.index(name)

    def public_key(self, name: str) -> bytes:
        """Return a party's public key."""
        return self.public_keys[self.position(name)]

    def bits(self, names: Iterable[str]) -> int:
        """Return a set of parties as one integer: bit i for the party at position i."""
        return _bits_of(self, frozenset(names))

    def check(self, name: str, public: bytes) -> None:
        """Raise if a party's key differs from its key on the roster."""
        if self.public_key(name) != public:
            raise ProtocolError(
                f"Party {name!r} presented a key that is not its key on the roster. "
                "Correct the roster, or give the party its own key."
            )


@dataclass(frozen=True, slots=True)
class SumSettings:
    """The settings that all parties of a job's secure sums agreed on; make one with `of`.

    Attributes
    ----------
    job
        A unique name.
    roster
        The parties and their keys.
    honest
        How many honest parties every sum is promised to contain (t): in no round may more than
        `len(roster) - honest` parties collude or drop out.
    threshold
        How many parties together can open a secret (tau); more than may collude.
    min_survivors
        How many parties a sum must contain.
    needs_all
        Whether no party may ever be missing. Then masks between parties are enough: they cancel in
        the sum over all and in no other, so nothing is revealed to open it.
    """

    job: str
    roster: Roster
    honest: int
    threshold: int
    min_survivors: int
    needs_all: bool = False

    def __post_init__(self) -> None:
        n_parties = len(self.roster)
        if not 1 <= self.honest < n_parties:
            raise SettingError(
                f"honest must be between 1 and {n_parties - 1} for {n_parties} parties; "
                f"got {self.honest}."
            )
        colluders, least = n_parties - self.honest, max(self.threshold, self.honest)
        if not (colluders < self.threshold and least <= self.min_survivors <= n_parties):
            raise SettingError(
                f"threshold must be above {colluders} (the parties that may collude), and "
                f"min_survivors at least threshold and honest={self.honest} and at most "
                f"{n_parties}; got threshold={self.threshold}, min_survivors={self.min_survivors}."
            )
        if self.needs_all and self.min_survivors < n_parties:
            raise SettingError(
                f"A sum that needs all of {n_parties} parties cannot do with {self.min_survivors}."
            )

    @classmethod
    def of(
        cls,
        job: str,
        roster: Roster,
        *,
        honest: int | None = None,
        threshold: int | None = None,
        min_survivors: int | None = None,
    ) -> Self:
        """Return settings; by default half of the parties, rounded up, are assumed honest."""
        if honest is None:
            honest = (len(roster) + 1) // 2
        if threshold is None:
            threshold = len(roster) - honest + 1
        if min_survivors is None:
            min_survivors = max(threshold, honest)
        return cls(job, roster, honest, threshold, min_survivors)

    def agreed(self) -> bytes:
        """Return a digest of all settings; parties that agreed on others derive other keys."""
        pairs = zip(self.roster.names, self.roster.public_keys, strict=True)
        flat = [part for pair in pairs for part in pair]
        numbers = (self.honest, self.threshold, self.min_survivors, int(self.needs_all))
        return digest(self.job, *numbers, *flat)


@dataclass(frozen=True, slots=True)
class KeysAsk:
    """Make keys for the rounds `first_round` to `first_round + n_rounds - 1`."""

    job: str
    epoch: int
    first_round: int
    n_rounds: int


@dataclass(frozen=True, slots=True)
class KeysReply:
    """What a party publishes for an epoch, and its letters to all parties in the roster's order."""

    job: str
    epoch: int
    sender: str
    public_key: bytes  # the roster's
    sealed_pairs: bytes  # per round: the pair secrets, under the round's pair key
    self_checks: bytes  # 32 bytes per round: detects a wrongly recovered self seed
    letters: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SharesAsk:
    """Take the letters that the parties of the epoch sealed for you."""

    job: str
    epoch: int
    senders: tuple[str, ...]  # in the roster's order
    letters: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class SharesReply:
    """The letters were opened."""

    job: str
    epoch: int
    sender: str


def encode_parts(*parts: str | bytes | int) -> bytes:
    """Return the parts as unambiguous bytes: kind, length and content of each."""
    return b"".join(
        [
            b"b" + _LENGTH.pack(len(part)) + part
            if isinstance(part, bytes)
            else _encode_public(part)
            for part in parts
        ]
    )


@lru_cache(maxsize=1024, typed=True)
def _encode_public(part: str | int) -> bytes:
    """Return a name, a purpose or a number as bytes; secrets are bytes, and are not kept."""
    kind, content = (b"i", str(part)) if isinstance(part, int) else (b"s", part)
    return kind + _LENGTH.pack(len(content.encode())) + content.encode()


@cache
def name_of(kind: np.dtype[Any]) -> str:
    """Return the name of a type of words, which numpy puts together anew at each call."""
    return kind.name


def digest(*parts: str | bytes | int) -> bytes:
    """Return the SHA-256 of the encoded parts."""
    state = Hash(_SHA256)
    state.update(encode_parts(*parts))
    return state.finalize()


def derive_key(
    secret: bytes, purpose: str, *, job: bytes, round_number: int, names: Iterable[str]
) -> bytes:
    """Return the key for one purpose, job, round and set of names.

    Parameters
    ----------
    secret
        At least 32 bytes with 256 bits of entropy, or the result of a key agreement.
    purpose
        The purpose of the key; no two uses have the same purpose.
    job
        The digest of the job, roster and thresholds that the parties agreed on.
    round_number
        The round, or the first one if a key serves several.
    names
        The party or the two parties that the key belongs to, in any order.
    """
    info = _purpose(purpose, job, round_number, tuple(sorted(names)))
    return HKDF(algorithm=_SHA256, length=KEY_BYTES, salt=None, info=info).derive(secret)


@lru_cache(maxsize=256)  # parties in one process, and a party and its coordinator, say the same
def _purpose(purpose: str, job: bytes, round_number: int, names: tuple[str, ...]) -> bytes:
    """Return what distinguishes a key from all others; nothing of it is secret."""
    return encode_parts("spinney secure sum 1", purpose, job, round_number, *names)


def self_mask_key(seed: bytes, agreed: bytes, number: int, name: str) -> bytes:
    """Return the key of the self mask, which only the seed's owner knows."""
    return derive_key(seed, "self mask", job=agreed, round_number=number, names=(name,))


def self_check(seed: bytes, agreed: bytes, number: int, name: str) -> bytes:
    """Return a value that verifies a recovered self seed and reveals nothing else about it."""
    return derive_key(seed, "self check", job=agreed, round_number=number, names=(name,))


def pair_mask_key(secret: bytes, told: bytes, number: int, names: tuple[str, str]) -> bytes:
    """Return the key of the mask of two parties with the same settings and the same history."""
    return derive_key(secret, "pair mask", job=told, round_number=number, names=names)


def pair_check(secret: bytes, agreed: bytes, number: int, names: tuple[str, str]) -> bytes:
    """Return a value that verifies a pair secret and reveals nothing else about it."""
    return derive_key(secret, "pair check", job=agreed, round_number=number, names=names)


def fingerprint(key: bytes, about: bytes, vectors: Iterable[Words]) -> bytes:
    """Return a tag that distinguishes vectors; only the party that made it may see it.

    It is six times faster than SHA-256. Poly1305 is safe for this as long as the tag is not sent.
    """
    tag = Poly1305(key)
    tag.update(about)
    for vector in vectors:
        tag.update(encode_parts(name_of(vector.dtype), *vector.shape))
        tag.update(vector.reshape(-1).view(np.uint8).data)
    return tag.finalize()
