"""Tags that let parties check a sum: keys that all parties share and the coordinator lacks.

In step n party i adds a tag to its reply x_i: t_i = h_n(x_i) + a_n,i modulo a prime. Here h_n is a
linear hash and a_n,i a pad; both are derived from the parties' shared key, fresh in every step. The
coordinator adds tags as it adds replies. Since h_n is linear, the sum of the tags of some parties U
is h_n(S) plus their pads if and only if S is the sum of their replies, except with a probability of
about 2^-62 (`trees.linear_hash`).

*Why a coordinator cannot forge.* It knows S, U and the tags. The pads are uniform and independent,
so the tags say nothing about the keys of h_n. To pass with another sum S' or other parties U' it
must name h_n(S') - h_n(S), or a pad that it does not know: one guess in the size of the field. This
is the one-time authenticator of Wegman and Carter (1981), which adds up because its hash is linear.
A party that leaves after it has sent its tag changes nothing: U names the parties of the sum.

*Why it cannot tell parties different sums.* The keys of a step depend on all that a party was told
before. Parties that were told different things have different keys, so the next sum fails.

Under masks a tag is masked like the numbers beside it, because a party that colludes with the
coordinator knows the pads and would otherwise learn h_n of another party's reply.

*Why the sum of the tags tells parties no more than S.* Tags are added up as whole numbers. Modulo
the prime their sum follows from S, but how often it exceeds the prime depends on the single tags,
which parties can compute for any replies that they suspect. So every party adds a secret multiple
of the prime to its tag, out of 2^25 (of fewer where 128 parties or more take part): over two
parties whose multiples one does not know, a difference of one is seen with a probability of at most
2^-25 a prime.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.privacy.entropy import secret_bytes
from spinney.privacy.keys import KEY_BYTES, Words, derive_key, digest, encode_parts
from spinney.privacy.streams import add_stream, add_streams, stream_words
from spinney.transport.messages import Beside
from spinney.trees.linear_hash import PRIMES, HashKeys, hash_keys, linear_hash, n_hash_keys

Vector = NDArray[Any]  # of integers
Tag = NDArray[np.uint64]  # (4,) a tag; or the sum of some parties' tags
TAG_WORDS = len(PRIMES)
_PAD = Struct(f"<{TAG_WORDS}Q")
_MULTIPLES = 1 << 25  # that hide how often a sum of tags exceeds its prime
_MOST_PARTIES = 127  # whose sum then fits 64 bits; of more, each has fewer multiples


class SumKeys:
    """The keys of all tags of a run: derived from one secret that its parties share."""

    def __init__(self, secret: bytes, run: bytes) -> None:
        self._secret = secret
        self._run = run
        self._kept: tuple[tuple[int, bytes, int], HashKeys] | None = None  # of the last step
        self._job: tuple[bytes, bytes] = (b"", b"")  # the last story, and what keys say of it
        self._checked: Beside[bool] = Beside()
        self._shown: Beside[Any] = Beside()
        # Of the last step: their key, and those that are known.
        self._pads: tuple[tuple[int, bytes], bytes, dict[str, list[int]]] = ((0, b""), b"", {})

    @classmethod
    def fresh(cls) -> "SumKeys":
        """Return new keys, for parties in one process."""
        return cls(secret_bytes(KEY_BYTES), b"")

    def tag(
        self,
        step: int,
        story: bytes,
        name: str,
        vectors: Sequence[Vector],
        *,
        own: bytes,
        n_parties: int,
        n_threads: int,
    ) -> Tag:
        """Return a party's tag for its reply in a step, after all that `story` is a digest of.

        `own` is a secret of this party alone, the same whenever it is asked again; in one process,
        where nothing is hidden from anybody, it is empty. `n_parties` may be in the sum.
        """
        hashed = self._hashed(step, story, vectors, n_threads)
        multiples = _multiples(own, step, story, n_parties)
        parts = zip(hashed, self._pad(step, story, name), multiples, PRIMES, strict=True)
        return np.array([(h + pad) % prime + times * prime for h, pad, times, prime in parts], "u8")

    def is_sum(
        self,
        step: int,
        story: bytes,
        names: Sequence[str],
        vectors: Sequence[Vector],
        tag: Tag,
        *,
        n_threads: int,
    ) -> bool:
        """Return whether vectors are the sum of these parties' replies, by their summed tags."""
        if tag.shape != (len(PRIMES),):
            return False
        totals = list(self._hashed(step, story, vectors, n_threads))
        for name in names:
            totals = [a + b for a, b in zip(totals, self._pad(step, story, name), strict=True)]
        parts = zip(totals, tag.tolist(), PRIMES, strict=True)
        return all((total - said) % prime == 0 for total, said, prime in parts)

    def hide(self, step: int, story: bytes, name: str, words: Sequence[Words]) -> None:
        """Add a party's mask, which all parties know and the coordinator does not; in place.

        Every party has a mask of its own. A sum of equal masks would be a multiple of their number,
        which shows the low bits of what it hides if that number is even.
        """
        add_stream(words, self._key("blind sums", step, story, (name,)))

    def show(
        self, step: int, story: bytes, words: Sequence[Words], names: Sequence[str]
    ) -> tuple[Vector, ...]:
        """Return the sum of some parties' words without their masks."""
        sums = [vector.copy() for vector in words]
        keys = (self._key("blind sums", step, story, (name,)) for name in names)
        add_streams(sums, [(key, True) for key in keys])
        return tuple(vector.view(f"i{vector.itemsize}") for vector in sums)

    def checked(self, told: object, check: Callable[[], bool]) -> bool:
        """Return what a check says; parties in one process check the same object once."""
        return self._checked.get(told, check)

    def shown(self, told: object, read: Callable[[], Any]) -> Any:
        """Return a hidden sum as it is read; parties in one process read the same object once."""
        return self._shown.get(told, read)

    def _hashed(
        self, step: int, story: bytes, vectors: Sequence[Vector], n_threads: int
    ) -> tuple[int, ...]:
        return linear_hash(vectors, self._hash_keys(step, story, n_hash_keys(vectors)), n_threads)

    def _hash_keys(self, step: int, story: bytes, n_words: int) -> HashKeys:
        kept, wanted = self._kept, (step, story, n_words)
        if kept is None or kept[0] != wanted:
            kept = (wanted, hash_keys(self._words("sum check", step, story, (), n_words)))
            self._kept = kept
        return kept[1]

    def _pad(self, step: int, story: bytes, name: str) -> list[int]:
        when, key, known = self._pads
        if when != (step, story):
            key, known = self._key("sum pad", step, story, ()), {}
            self._pads = ((step, story), key, known)
        if name not in known:
            drawn = blake2b(name.encode(), key=key, digest_size=8 * len(PRIMES)).digest()
            words = _PAD.unpack(drawn)
            known[name] = [word % prime for word, prime in zip(words, PRIMES, strict=True)]
        return known[name]

    def _words(
        self, purpose: str, step: int, story: bytes, names: tuple[str, ...], count: int
    ) -> NDArray[np.uint64]:
        """Return words that only the parties can derive."""
        return stream_words(self._key(purpose, step, story, names), count)

    def _key(self, purpose: str, step: int, story: bytes, names: tuple[str, ...]) -> bytes:
        known, job = self._job
        if known != story or not job:
            job = digest(self._run, story)
            self._job = (story, job)
        return derive_key(self._secret, purpose, job=job, round_number=step, names=names)


def _multiples(own: bytes, step: int, story: bytes, n_parties: int) -> list[int]:
    """Return how many times each prime a party adds to its tag."""
    if not own:
        return [0] * len(PRIMES)
    drawn = blake2b(encode_parts(step, story), key=own, digest_size=4 * len(PRIMES)).digest()
    most = _MULTIPLES >> max(0, n_parties.bit_length() - _MOST_PARTIES.bit_length())
    found: list[int] = (np.frombuffer(drawn, "<u4") % most).tolist()
    return found
