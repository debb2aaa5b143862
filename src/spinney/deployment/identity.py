"""Who holds a start kit: it signs with its own key and checks what others signed."""

from functools import cached_property, lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from spinney.errors import PolicyError, ProtocolError, SettingError
from spinney.privacy.signatures import PADDING, text_of
from spinney.transport.remote.certificates import (
    CERTIFICATE_LIMIT,
    LEAD,
    PARTY,
    Peer,
    fingerprint,
    holder_of,
    issued_by,
)


class KitIdentity:
    """The identity in a start kit; `own` is "client", or "server" at the coordinator."""

    def __init__(self, kit: Path, own: str = "client") -> None:
        self._startup = kit / "startup"
        self._own = own

    def sign(self, data: bytes) -> bytes:
        """Return the holder's signature."""
        return self._key.sign(data, PADDING, SHA256())

    @cached_property
    def certificate(self) -> bytes:
        """The certificate, as PEM."""
        return self._read(f"{self._own}.crt")

    def check(self, name: str, certificate: bytes, signature: bytes, data: bytes) -> None:
        """Raise unless the named party signed this, with a certificate of the same authority."""
        signer = self.signer(certificate, signature, data)
        if signer is None or signer.name != name or signer.role != PARTY:
            raise ProtocolError(
                f"The mask key sent for party {name!r} is not signed by that party. "
                "Nothing was released."
            )

    def lead_who_signed(self, certificate: bytes, signature: bytes, data: bytes) -> str:
        """Return the name of the lead who signed this; raise unless one did."""
        signer = self.signer(certificate, signature, data)
        if signer is None or signer.role != LEAD:
            raise PolicyError("The job is not signed by a lead of this federation.")
        return signer.name

    @property
    def has_key(self) -> bool:
        """Whether the kit holds a key."""
        return (self._startup / f"{self._own}.key").is_file()

    @cached_property
    def public_key(self) -> str:
        """The public key, as ledgers name it."""
        return text_of(self._key.public_key())

    @cached_property
    def federation(self) -> str:
        """The fingerprint of the federation's authority."""
        return fingerprint(self._authority)

    def signer(
        self, certificate: bytes, signature: bytes, data: bytes, *, is_old: bool = False
    ) -> Peer | None:
        """Return whose certificate of this federation made a signature.

        It must be valid now, unless what was signed may be old.
        """
        authority = self._authority
        try:
            shown = x509.load_pem_x509_certificate(certificate[:CERTIFICATE_LIMIT])
            key = shown.public_key()
            holder = holder_of(shown)
            if not isinstance(key, RSAPublicKey) or not (is_old or holder.is_valid_now):
                return None
            if not issued_by(shown, authority):
                return None
            key.verify(signature, data, PADDING, SHA256())
        except (ValueError, TypeError, InvalidSignature):
            return None
        return holder

    @cached_property
    def _key(self) -> RSAPrivateKey:
        return _loaded(self._read(f"{self._own}.key"))

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


@lru_cache(maxsize=4)  # to check a key takes as long as a hundred signatures
def _loaded(pem: bytes) -> RSAPrivateKey:
    key = load_pem_private_key(pem, None)
    assert isinstance(key, RSAPrivateKey)
    return key
