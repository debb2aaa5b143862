"""Find the rows that several parties share, by comparing ids without showing them.

There are two ways. Private set intersection (`spinney.privacy.intersection`): one party learns
which of its ids another also has, or only how many; the other learns nothing. Or a keyed hash:
HMAC-SHA-256 under a key that the parties share and the coordinator does not have; nobody without
the key can try out ids. Never use a plain hash: all telephone numbers can be hashed in minutes.

Both tell at least one party which of its rows another party also has. That is a release without
noise, and each run is another question about membership: run it once per job.
"""

import hashlib
import hmac
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Final, Literal

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from numpy.typing import NDArray

from spinney.errors import ProtocolError, TableError
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.keys import KEY_BYTES, KeyPair, derive_key

IdKind = Literal["text", "whole numbers"]
TAG_BYTES: Final = 16
_NONCE_BYTES: Final = 12

Tags = NDArray[np.uint8]  # (n, 16)


class Ids:
    """A party's row ids, in canonical form: each once, text or whole numbers."""

    def __init__(self, ids: Sequence[Any] | NDArray[Any]) -> None:
        values = list(ids)
        self.kind = _kind(values)
        self.texts = [_canonical(value) for value in values]
        n_repeated = len(self.texts) - len(set(self.texts))
        if n_repeated:
            raise TableError(
                "Some row ids are in more than one row. Matching needs each person once: keep one "
                "row per id, or aggregate the rows first.",
                local=f"{n_repeated} rows repeat an id.",
            )

    def __len__(self) -> int:
        return len(self.texts)

    def hashes(self) -> NDArray[np.uint64]:
        """Return a word for every id, for those who know the ids: a plain hash hides nothing."""
        words = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in self.texts]
        return np.frombuffer(b"".join(words), "<u8").astype(np.uint64)

    def tags(self, key: bytes) -> Tags:
        """Return the keyed hash of every id."""
        # Each id needs a fresh HMAC; copying one keyed state is faster than creating a new one.
        keyed = hmac.new(key, digestmod=hashlib.sha256)
        parts = []
        for text in self.texts:
            one = keyed.copy()
            one.update(text.encode())
            parts.append(one.digest()[:TAG_BYTES])
        return np.frombuffer(b"".join(parts), np.uint8).reshape(-1, TAG_BYTES)

    def rows_of(self, tags: Tags, key: bytes) -> NDArray[np.int64]:
        """Return the row of each tag, in the order of the tags; raise for unknown tags."""
        own = _as_words(self.tags(key))
        order = np.argsort(own)
        wanted = _as_words(tags)
        place = np.searchsorted(own, wanted, sorter=order).clip(0, max(len(own) - 1, 0))
        if len(own) == 0 or np.any(own[order[place]] != wanted):
            raise ProtocolError("Some matched rows are not rows of this party. Match again.")
        rows: NDArray[np.int64] = order[place].astype(np.int64)
        return rows


def _kind(values: list[Any]) -> IdKind:
    if any(value is None or value != value for value in values):  # noqa: PLR0124  not a number
        raise TableError(
            "Some rows have no id. Matching needs an id in every row; leave those rows out."
        )
    if all(isinstance(value, Integral) and not isinstance(value, bool) for value in values):
        return "whole numbers"
    if all(isinstance(value, str) for value in values):
        return "text"
    raise TableError(
        "Row ids must be all text or all whole numbers. Write them all in the same way as the "
        "other parties do."
    )


def _canonical(value: Any) -> str:
    """Return an id as canonical text, without surrounding blanks."""
    return value.strip() if isinstance(value, str) else str(int(value))


def _as_words(tags: Tags) -> NDArray[Any]:
    """Return the leading word of each tag: enough to distinguish tags, and fast to sort."""
    words = np.ascontiguousarray(tags).view(">u8").reshape(-1, 2)
    return words[:, 0].astype(np.uint64)


# --- a key that the coordinator carries but cannot read -------------------------------------------


def seal_key(key: bytes, own: KeyPair, public: bytes, names: tuple[str, str]) -> bytes:
    """Return a key as a letter that only the owner of `public` can open."""
    nonce = secret_bytes(_NONCE_BYTES)
    secret = _letter_key(own, public, names)
    return nonce + ChaCha20Poly1305(secret).encrypt(nonce, key, None)


def open_key(letter: bytes, own: KeyPair, public: bytes, names: tuple[str, str]) -> bytes:
    """Return the key in a letter from the owner of `public`."""
    secret = _letter_key(own, public, names)
    try:
        return ChaCha20Poly1305(secret).decrypt(letter[:_NONCE_BYTES], letter[_NONCE_BYTES:], None)
    except (InvalidTag, ValueError):
        raise ProtocolError(
            "The letter with the matching key cannot be opened: it is damaged or addressed to "
            "another party."
        ) from None


def new_matching_key() -> bytes:
    """Draw the key for the parties' tags."""
    return secret_bytes(KEY_BYTES)


def _letter_key(own: KeyPair, public: bytes, names: tuple[str, str]) -> bytes:
    return derive_key(
        own.shared_with(public), "matching key", job=b"matching", round_number=0, names=names
    )
