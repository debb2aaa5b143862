"""Private set intersection by Diffie-Hellman on Curve25519: which ids do two parties share?

C. Meadows (1986); B. Huberman, M. Franklin, T. Hogg: Enhancing Privacy and Trust in Electronic
Communities, EC 1999. Both sides hash ids to points of a group. The client sends a H(x) for each of
its ids x, under its secret a. The server returns b a H(x), in the same order, and b H(y) for each
of its own ids y, sorted. The client multiplies those by a: an id is shared if a b H(x) = a b H(y).
If only the number shall be known, the server sorts both lists.

**Why it is safe**, against parties that follow the protocol and hash functions without structure:
under the decisional Diffie-Hellman assumption a H(x) is as good as a random point to all who do not
know a, so that a list tells its length and nothing else, and equal points of two lists tell that
two ids are the same. Sides that do not follow it can choose what they ask about, not more: a point
that is not an id's tells nothing (one-more Diffie-Hellman), and `max_match_ids` limits how many.

**Why Curve25519 by its u-coordinates** (X25519, RFC 7748, from libsodium by way of PyNaCl): a
product has a fixed time and releases Python's lock (that of `cryptography` does not, so that two
cores were no faster than one), an id costs 32 bytes, and there are wheels for every Python and
system that Spinney runs on.
A point and its negative are one element, which both sides see the same way. An id is hashed with
SHA-256 and a counter until the number is the u-coordinate of a point on the curve: all of them are
equally likely. Without that test half of the ids would be on the curve's twist, and every product
would tell on which of the two its id is: a bit of each id. X25519's secrets are multiples of
eight, which leaves nothing of small subgroups, on the curve or the twist; what lies in one entirely
has the product zero, which is refused.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib import import_module
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import MissingExtraError, ProtocolError
from spinney.privacy.entropy import secret_bytes

_POINT_BYTES: Final = 32
_KEY_BYTES: Final = 32
_DOMAIN: Final = b"spinney id on Curve25519, version 1"
_PRIME: Final = 2**255 - 19
_A: Final = 486662  # v^2 = u^3 + A u^2 + u
_BATCH: Final = 1024  # points that a thread multiplies at a time


def n_asked(request: bytes) -> int:
    """Return how many ids a request asks about."""
    return len(_points(request))


class PsiServer:
    """The side that learns nothing; its key is drawn for one answer."""

    def __init__(self, ids: Sequence[str], *, reveal: bool) -> None:
        self._own = hashed_to_curve(ids)
        self._reveal = reveal
        self._key = secret_bytes(_KEY_BYTES)

    def setup(self) -> bytes:
        """Return the server's ids under its key, in an order that tells nothing."""
        return b"".join(sorted(_multiplied(self._own, self._key)))

    def respond(self, request: bytes) -> bytes:
        """Return the client's ids under both keys; sorted, if it shall only count them."""
        found = _multiplied(_points(request), self._key)
        return b"".join(found if self._reveal else sorted(found))


class PsiClient:
    """The side that learns which of its ids the server has, or how many."""

    def __init__(self, ids: Sequence[str], *, key: bytes | None = None) -> None:
        self._own = hashed_to_curve(ids)
        self.key = key or secret_bytes(_KEY_BYTES)  # the same ids under it are the same request

    def request(self) -> bytes:
        """Return the client's ids under its key."""
        return b"".join(_multiplied(self._own, self.key))

    def common(self, setup: bytes, response: bytes) -> NDArray[np.int64]:
        """Return the indices of the client's ids that the server also has."""
        theirs, own = self._under_both(setup, response)
        return np.array([row for row, point in enumerate(own) if point in theirs], np.int64)

    def size(self, setup: bytes, response: bytes) -> int:
        """Return how many of the client's ids the server also has."""
        theirs, own = self._under_both(setup, response)
        return len(theirs.intersection(own))

    def _under_both(self, setup: bytes, response: bytes) -> tuple[set[bytes], list[bytes]]:
        own = _points(response)
        if len(own) != len(self._own):
            raise _bad_psi()
        return set(_multiplied(_points(setup), self.key)), own


def hashed_to_curve(ids: Sequence[str]) -> list[bytes]:
    """Return a point of the curve for each id."""
    try:
        gmpy2 = import_module("gmpy2")
    except ImportError:
        raise MissingExtraError("gmpy2", "matching", "matching='psi'") from None
    jacobi, mpz = gmpy2.jacobi, gmpy2.mpz
    found = []
    for text in ids:
        begun = sha256(_DOMAIN)
        begun.update(text.encode())
        counter = 0
        while True:
            tried = begun.copy()
            tried.update(counter.to_bytes(4, "big"))
            point = tried.digest()
            u = mpz(int.from_bytes(point, "little") & ((1 << 255) - 1))
            if jacobi(u * (u * (u + _A) + 1), _PRIME) == 1:  # there is a v: a point of the curve
                break
            counter += 1
        found.append(point)
    return found


def _multiplied(points: list[bytes], key: bytes) -> list[bytes]:
    """Return the points times a key, on all cores."""
    try:
        product = import_module("nacl.bindings").crypto_scalarmult
        refused = import_module("nacl.exceptions").RuntimeError
    except ImportError:
        raise MissingExtraError("pynacl", "matching", "matching='psi'") from None

    def batch(begin: int) -> list[bytes]:
        return [product(key, point) for point in points[begin : begin + _BATCH]]

    try:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            parts = list(pool.map(batch, range(0, len(points), _BATCH)))
    except refused:  # a product is zero
        raise _bad_psi() from None
    return [point for part in parts for point in part]


def _points(data: bytes) -> list[bytes]:
    if len(data) % _POINT_BYTES:
        raise _bad_psi()
    return [data[at : at + _POINT_BYTES] for at in range(0, len(data), _POINT_BYTES)]


def _bad_psi() -> ProtocolError:
    return ProtocolError("An id matching message is damaged or from another run. Match again.")
