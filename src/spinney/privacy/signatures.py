"""Who signs a ledger: the key of the party's certificate, or a key in a file beside the ledger.

A public key is kept as text: an RSA key as "rsa:" and its DER in hexadecimal, an Ed25519 key as its
32 bytes in hexadecimal.
"""

import os
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
)

from spinney.errors import LedgerError
from spinney.files import sync_to_disk
from spinney.privacy.entropy import secret_bytes

PADDING: Final = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)
_RSA: Final = "rsa:"
_KEY_BYTES: Final = 32


class Signer(Protocol):
    """A key that signs a ledger's entries."""

    @property
    def public_key(self) -> str:
        """The public key, as text."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Return the signature."""
        ...


class LocalKey:
    """A key of the ledger's own, for ledgers outside a deployment."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def of_secret(cls, secret: bytes) -> "LocalKey":
        """Return the key that follows from a ledger's secret."""
        seed = sha256(b"spinney ledger: signing key\0" + secret).digest()
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def public_key(self) -> str:
        """The public key, as text."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, data: bytes) -> bytes:
        """Return the signature."""
        return self._key.sign(data)


def text_of(key: RSAPublicKey) -> str:
    """Return a certificate's public key as text."""
    return _RSA + key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo).hex()


def fingerprint_of_key(public_key: str) -> str:
    """Return a short text by which people compare keys."""
    return f"SHA256:{sha256(public_key.encode()).hexdigest()[:16]}"


def is_signed_by(public_key: str, signature: Any, data: bytes) -> bool:
    """Return whether a key made a signature; whatever a changed file holds instead is none."""
    try:
        key = _key_in(public_key)
        if isinstance(key, Ed25519PublicKey):
            key.verify(signature, data)
        else:
            key.verify(signature, data, PADDING, SHA256())
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


@lru_cache(maxsize=16)
def _key_in(public_key: str) -> Ed25519PublicKey | RSAPublicKey:
    if not public_key.startswith(_RSA):
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
    key = load_der_public_key(bytes.fromhex(public_key.removeprefix(_RSA)))
    if not isinstance(key, RSAPublicKey):
        raise TypeError
    return key


def key_file_of(ledger: Path) -> Path:
    """Return the file of a ledger's own secret."""
    return ledger.with_name(f"{ledger.name}.key")


def ledger_secret(ledger: Path) -> bytes:
    """Return the secret of a ledger, made at the first use; only its owner can read it."""
    path = key_file_of(ledger)
    try:
        if not path.exists():
            _make(path)
        found = path.read_bytes()
    except OSError as error:
        raise LedgerError(
            "The key beside the ledger cannot be read or made. Nothing was released.",
            local=f"File: {path}: {error.strerror}.",
        ) from None
    if len(found) != _KEY_BYTES:
        raise LedgerError(
            "The key beside the ledger is damaged. Restore it from a backup. Nothing was released.",
            local=f"File: {path}.",
        )
    return found


def own_key_of(ledger: Path) -> str:
    """Return the public key that follows from the secret beside a ledger; empty: there is none."""
    if not key_file_of(ledger).exists():
        return ""
    return LocalKey.of_secret(ledger_secret(ledger)).public_key


def _make(path: Path) -> None:
    """Write a fresh secret whole, unless another process was faster."""
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(part, path)
        sync_to_disk(path.parent)
    finally:
        part.unlink(missing_ok=True)
