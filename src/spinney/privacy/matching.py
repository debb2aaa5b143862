"""Find the rows that several parties share, by comparing ids without showing them.

There are two ways. Private set intersection with elliptic curves (the package openmined-psi): one
party learns which of its ids another also has, or only how many; the other learns nothing. Or a
keyed hash: HMAC-SHA-256 under a key that the parties share and the coordinator does not have;
nobody without the key can try out ids. Never use a plain hash: all telephone numbers can be hashed
in minutes.

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

from spinney.errors import MissingExtraError, ProtocolError, TableError
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.keys import KEY_BYTES, KeyPair, derive_key

IdKind = Literal["text", "whole numbers"]
TAG_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_FALSE_POSITIVES: Final = 1e-12  # of the size-only comparison, in total

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


# --- private set intersection ---------------------------------------------------------------------


def _psi() -> Any:
    try:
        import private_set_intersection.python as psi  # noqa: PLC0415  an extra
    except ImportError:
        raise MissingExtraError("openmined-psi", "matching", "matching='psi'") from None
    return psi


def n_asked(request: bytes) -> int:
    """Return how many ids a request asks about."""
    asked = _psi().Request()
    try:
        asked.ParseFromString(request)
    except Exception:  # noqa: BLE001  the package passes on any error of its parser
        raise _bad_psi() from None
    return len(asked.encrypted_elements)


class PsiServer:
    """The side that learns nothing."""

    def __init__(self, ids: Ids, *, reveal: bool) -> None:
        self._psi = _psi()
        self._ids = ids
        self._reveal = reveal
        self._server = self._psi.server.CreateWithNewKey(reveal)

    def setup(self, n_client: int) -> bytes:
        """Return the server's ids, encrypted with its key."""
        kind = self._psi.DataStructure.RAW if self._reveal else self._psi.DataStructure.GCS
        made = self._server.CreateSetupMessage(_FALSE_POSITIVES, n_client, self._ids.texts, kind)
        return bytes(made.SerializeToString())

    def respond(self, request: bytes) -> bytes:
        """Encrypt the client's ids with this side's key as well."""
        asked = self._psi.Request()
        try:
            asked.ParseFromString(request)
            return bytes(self._server.ProcessRequest(asked).SerializeToString())
        except Exception:  # noqa: BLE001  the package passes on any error of its parser
            raise _bad_psi() from None


class PsiClient:
    """The side that learns which of its ids the server has, or how many."""

    def __init__(self, ids: Ids, *, reveal: bool, key: bytes | None = None) -> None:
        self._psi = _psi()
        self._ids = ids
        make = self._psi.client
        self._client = make.CreateFromKey(key, reveal) if key else make.CreateWithNewKey(reveal)

    @property
    def key(self) -> bytes:
        """The secret key; the same ids under it are the same request."""
        return bytes(self._client.GetPrivateKeyBytes())

    def request(self) -> bytes:
        """Return the client's ids, encrypted with its key."""
        return bytes(self._client.CreateRequest(self._ids.texts).SerializeToString())

    def common(self, setup: bytes, response: bytes) -> NDArray[np.int64]:
        """Return the indices of the client's ids that the server also has."""
        found = self._parsed(setup, response, self._client.GetIntersection)
        return np.sort(np.array(found, np.int64))

    def size(self, setup: bytes, response: bytes) -> int:
        """Return how many of the client's ids the server also has."""
        return int(self._parsed(setup, response, self._client.GetIntersectionSize))

    def _parsed(self, setup: bytes, response: bytes, found: Any) -> Any:
        one, other = self._psi.ServerSetup(), self._psi.Response()
        try:
            one.ParseFromString(setup)
            other.ParseFromString(response)
            return found(one, other)
        except Exception:  # noqa: BLE001  as above
            raise _bad_psi() from None


def _bad_psi() -> ProtocolError:
    return ProtocolError("An id matching message is damaged or from another run. Match again.")
