"""Which rows do several parties share? Ids are compared without being shown.

Two ways. Private set intersection by elliptic curves (the package openmined-psi): one party learns
which of its ids another has too, or only how many; the other learns nothing. Or a keyed hash:
HMAC-SHA-256 under a key that the parties share and the coordinator has not; whoever lacks the key
cannot try out ids. Never a plain hash: all telephone numbers are hashed in minutes.

Both tell at least one party who else's rows are the same people. That is a release without noise,
and each run is one more question about membership: run it once for a job.
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
from spinney.privacy.keys import KEY_BYTES, KeyPair, derived

IdKind = Literal["text", "whole numbers"]
TAG_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_FALSE_POSITIVES: Final = 1e-12  # of the size-only comparison, in all

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
                "Some row ids stand in more than one row. Matching needs each person once: keep "
                "one row of each, or add up the rows first.",
                local=f"{n_repeated} rows repeat an id.",
            )

    def __len__(self) -> int:
        return len(self.texts)

    def tags(self, key: bytes) -> Tags:
        """Return the keyed hash of every id."""
        # A fresh HMAC for each: copying one keyed state is quicker than keying anew.
        keyed = hmac.new(key, digestmod=hashlib.sha256)
        parts = []
        for text in self.texts:
            one = keyed.copy()
            one.update(text.encode())
            parts.append(one.digest()[:TAG_BYTES])
        return np.frombuffer(b"".join(parts), np.uint8).reshape(-1, TAG_BYTES)

    def rows_of(self, tags: Tags, key: bytes) -> NDArray[np.int64]:
        """Return the row of each tag, in the order of the tags; refuse tags of ids not held."""
        own = _as_words(self.tags(key))
        order = np.argsort(own)
        wanted = _as_words(tags)
        place = np.searchsorted(own, wanted, sorter=order).clip(0, max(len(own) - 1, 0))
        if len(own) == 0 or np.any(own[order[place]] != wanted):
            raise ProtocolError("The matched rows are not all rows of this party. Match again.")
        rows: NDArray[np.int64] = order[place].astype(np.int64)
        return rows


def _kind(values: list[Any]) -> IdKind:
    if any(value is None or value != value for value in values):  # noqa: PLR0124  not a number
        raise TableError(
            "Some rows have no id. Every row needs one to be matched; leave the others out."
        )
    if all(isinstance(value, Integral) and not isinstance(value, bool) for value in values):
        return "whole numbers"
    if all(isinstance(value, str) for value in values):
        return "text"
    raise TableError(
        "Row ids must all be text or all be whole numbers. Write them in one way, as the other "
        "parties do."
    )


def _canonical(value: Any) -> str:
    """Return one text for an id; blanks around it do not count."""
    return value.strip() if isinstance(value, str) else str(int(value))


def _as_words(tags: Tags) -> NDArray[Any]:
    """Return the leading word of each tag: enough to tell tags apart, and quick to sort."""
    words = np.ascontiguousarray(tags).view(">u8").reshape(-1, 2)
    return words[:, 0].astype(np.uint64)


# --- a key that the coordinator carries but cannot read -------------------------------------------


def sealed_key(key: bytes, own: KeyPair, public: bytes, names: tuple[str, str]) -> bytes:
    """Return a key as a letter that only the owner of `public` can open."""
    nonce = secret_bytes(_NONCE_BYTES)
    secret = _letter_key(own, public, names)
    return nonce + ChaCha20Poly1305(secret).encrypt(nonce, key, None)


def opened_key(letter: bytes, own: KeyPair, public: bytes, names: tuple[str, str]) -> bytes:
    """Return the key of a letter from the owner of `public`."""
    secret = _letter_key(own, public, names)
    try:
        return ChaCha20Poly1305(secret).decrypt(letter[:_NONCE_BYTES], letter[_NONCE_BYTES:], None)
    except (InvalidTag, ValueError):
        raise ProtocolError(
            "The letter with the matching key cannot be opened: it is damaged, or for another."
        ) from None


def new_matching_key() -> bytes:
    """Draw the key of the parties' tags."""
    return secret_bytes(KEY_BYTES)


def _letter_key(own: KeyPair, public: bytes, names: tuple[str, str]) -> bytes:
    return derived(
        own.shared_with(public), "matching key", job=b"matching", round_number=0, names=names
    )


# --- private set intersection ---------------------------------------------------------------------


def _psi() -> Any:
    try:
        import private_set_intersection.python as psi  # noqa: PLC0415  an extra
    except ImportError:
        raise MissingExtraError("openmined-psi", "matching", "matching='psi'") from None
    return psi


class PsiServer:
    """The side that learns nothing."""

    def __init__(self, ids: Ids, *, reveal: bool) -> None:
        self._psi = _psi()
        self._ids = ids
        self._reveal = reveal
        self._server = self._psi.server.CreateWithNewKey(reveal)

    def setup(self, n_client: int) -> bytes:
        """Return the own ids under the own key."""
        kind = self._psi.DataStructure.RAW if self._reveal else self._psi.DataStructure.GCS
        made = self._server.CreateSetupMessage(_FALSE_POSITIVES, n_client, self._ids.texts, kind)
        return bytes(made.SerializeToString())

    def respond(self, request: bytes) -> bytes:
        """Put the own key over the client's."""
        asked = self._psi.Request()
        try:
            asked.ParseFromString(request)
            return bytes(self._server.ProcessRequest(asked).SerializeToString())
        except Exception:  # noqa: BLE001  the package raises what its parser raises
            raise _bad_psi() from None


class PsiClient:
    """The side that learns which of its ids the server has, or how many."""

    def __init__(self, ids: Ids, *, reveal: bool) -> None:
        self._psi = _psi()
        self._ids = ids
        self._client = self._psi.client.CreateWithNewKey(reveal)

    def request(self) -> bytes:
        """Return the own ids under the own key."""
        return bytes(self._client.CreateRequest(self._ids.texts).SerializeToString())

    def common(self, setup: bytes, response: bytes) -> NDArray[np.int64]:
        """Return the places of own ids that the server has too."""
        found = self._parsed(setup, response, self._client.GetIntersection)
        return np.sort(np.array(found, np.int64))

    def size(self, setup: bytes, response: bytes) -> int:
        """Return how many own ids the server has too."""
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
    return ProtocolError("A message of the id matching is damaged or of another run. Match again.")
