"""Identities: what lets one party know that another party, and not its messenger, said something.

Between organisations it is the key of a party's certificate. Parties in one process get identities
that are made on the fly, so that one code serves both.
"""

from collections.abc import Iterable
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from spinney.errors import ProtocolError


class Identity(Protocol):
    """What a party's certificate lets it do."""

    def sign(self, data: bytes) -> bytes:
        """Return this party's signature."""
        ...

    @property
    def certificate(self) -> bytes:
        """The certificate that others see."""
        ...

    def check(self, name: str, certificate: bytes, signature: bytes, data: bytes) -> None:
        """Raise `ProtocolError` unless the named party signed this."""
        ...


class SimulatedIdentity:
    """The identity of a party in one process; every party knows every other's public key."""

    def __init__(self, key: Ed25519PrivateKey, known: dict[str, bytes]) -> None:
        self._key = key
        self._known = known

    def sign(self, data: bytes) -> bytes:
        """Return this party's signature."""
        return self._key.sign(data)

    @property
    def certificate(self) -> bytes:
        """The public key, which stands for a certificate."""
        return self._key.public_key().public_bytes_raw()

    def check(self, name: str, certificate: bytes, signature: bytes, data: bytes) -> None:
        """Raise unless the named party signed this."""
        stranger = ProtocolError(f"This is not signed by party {name!r}.")
        if self._known.get(name) != certificate:
            raise stranger
        try:
            Ed25519PublicKey.from_public_bytes(certificate).verify(signature, data)
        except InvalidSignature:
            raise stranger from None


def simulated_identities(names: Iterable[str]) -> dict[str, Identity]:
    """Return a fresh identity for each of several parties in one process."""
    keys = {name: Ed25519PrivateKey.generate() for name in names}
    known = {name: key.public_key().public_bytes_raw() for name, key in keys.items()}
    return {name: SimulatedIdentity(key, known) for name, key in keys.items()}
