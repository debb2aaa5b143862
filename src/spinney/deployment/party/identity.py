"""A party's identity: it signs with its own key and checks what others signed."""

from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from spinney.errors import ProtocolError, SettingError

_PADDING: Final = padding.PSS(padding.MGF1(SHA256()), padding.PSS.DIGEST_LENGTH)
_CERTIFICATE_LIMIT: Final = 1 << 16


class KitIdentity:
    """The identity in a start kit."""

    def __init__(self, kit: Path) -> None:
        self._startup = kit / "startup"

    def sign(self, data: bytes) -> bytes:
        """Return this party's signature."""
        return self._key.sign(data, _PADDING, SHA256())

    @cached_property
    def certificate(self) -> bytes:
        """The certificate, as PEM."""
        return self._read("client.crt")

    def check(self, name: str, certificate: bytes, signature: bytes, data: bytes) -> None:
        """Raise unless the named party signed this, with a certificate of the same authority."""
        try:
            key = self._key_of(name, certificate[:_CERTIFICATE_LIMIT])
            key.verify(signature, data, _PADDING, SHA256())
        except (ValueError, TypeError, InvalidSignature):
            raise ProtocolError(
                f"The mask key sent for party {name!r} is not signed by that party. "
                "Nothing was released."
            ) from None

    def _key_of(self, name: str, certificate: bytes) -> RSAPublicKey:
        """Return the key of a party's certificate; raise ValueError if it is not that party's."""
        shown = x509.load_pem_x509_certificate(certificate)
        shown.verify_directly_issued_by(self._authority)
        key = shown.public_key()
        if name_in(shown) != name or not isinstance(key, RSAPublicKey) or _is_over(shown):
            raise ValueError
        return key

    @cached_property
    def _key(self) -> RSAPrivateKey:
        key = load_pem_private_key(self._read("client.key"), None)
        assert isinstance(key, RSAPrivateKey)
        return key

    @cached_property
    def _authority(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self._read("rootCA.pem"))

    def _read(self, name: str) -> bytes:
        try:
            return (self._startup / name).read_bytes()
        except OSError:
            raise SettingError(
                f"The start kit has no {name}. Join the federation first: spinney party join.",
                local=f"Looked in {str(self._startup)!r}.",
            ) from None


def name_in(certificate: x509.Certificate) -> str:
    """Return the name in a certificate."""
    names: list[Any] = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def _is_over(certificate: x509.Certificate) -> bool:
    now = datetime.now(UTC)
    return not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
