"""Certificates of a federation: its authority signs who is a party, a lead or a member.

A certificate names its holder (common name) and role (unstructured name). The authority's key stays
with the coordinator; every other key is made where it is used, and stays there.
"""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER, PARTY, LEAD, MEMBER = "server", "client", "lead", "member"
"""The roles, as certificates call them."""

_KEY_BITS: Final = 3072
_LEAST_BITS: Final = 2048  # of others' keys
_AUTHORITY_DAYS: Final = 3650
_SKEW: Final = timedelta(minutes=5)  # clocks differ
CERTIFICATE_LIMIT: Final = 1 << 16


@dataclass(frozen=True)
class Peer:
    """Whom a certificate belongs to."""

    name: str
    role: str
    serial: str  # in hexadecimal
    first: datetime
    last: datetime
    certificate: bytes  # as PEM

    @property
    def is_valid_now(self) -> bool:
        """Whether the certificate is valid at this moment."""
        return self.first <= datetime.now(UTC) <= self.last


def make_key() -> rsa.RSAPrivateKey:
    """Make a private key."""
    return rsa.generate_private_key(65537, _KEY_BITS)


def key_bytes(key: rsa.RSAPrivateKey) -> bytes:
    """Return a private key as PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def make_authority(name: str) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    """Make an authority's key and its certificate, which it signs itself."""
    key = make_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    built = _built(subject, subject, key.public_key(), _AUTHORITY_DAYS)
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = _usage(digital_signature=True, key_cert_sign=True, crl_sign=True)
    return key, built.add_extension(usage, critical=True).sign(key, SHA256())


def make_request(key: rsa.RSAPrivateKey, name: str, organisation: str) -> bytes:
    """Return a request for a certificate, as PEM."""
    attributes = [
        x509.NameAttribute(NameOID.COMMON_NAME, name),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes))
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def sign_request(
    request: bytes,
    authority: x509.Certificate,
    key_pem: bytes,
    *,
    name: str,
    role: str,
    days: int,
) -> x509.Certificate:
    """Return the certificate of a request; the authority, not the request, says name and role."""
    asked = x509.load_pem_x509_csr(request)
    if not asked.is_signature_valid:
        raise ValueError
    key: Any = load_pem_private_key(key_pem, None)
    organisation = asked.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            *organisation[:1],
            x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, role),
        ]
    )
    public: Any = asked.public_key()
    if not isinstance(public, rsa.RSAPublicKey) or public.key_size < _LEAST_BITS:
        raise ValueError
    built = _built(subject, authority.subject, public, days)
    built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    built = built.add_extension(_usage(digital_signature=True), critical=True)
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH
    if role == SERVER:  # nobody else may pass for the coordinator
        purpose = ExtendedKeyUsageOID.SERVER_AUTH
        built = built.add_extension(_address(name), critical=False)
    return built.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False).sign(key, SHA256())


def holder_of(certificate: x509.Certificate) -> Peer:
    """Return whom a certificate belongs to; names are empty if they are not unique."""
    return Peer(
        _only(certificate, NameOID.COMMON_NAME),
        _only(certificate, NameOID.UNSTRUCTURED_NAME),
        f"{certificate.serial_number:x}",
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        certificate.public_bytes(Encoding.PEM),
    )


def certificate_holder(pem: bytes) -> Peer:
    """Return whom a certificate in PEM belongs to."""
    return holder_of(x509.load_pem_x509_certificate(pem[:CERTIFICATE_LIMIT]))


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether an authority signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate in the form that people compare."""
    digest = certificate.fingerprint(SHA256())
    return "SHA256:" + ":".join(f"{byte:02X}" for byte in digest)


def _only(certificate: x509.Certificate, oid: Any) -> str:
    names = certificate.subject.get_attributes_for_oid(oid)
    return str(names[0].value) if len(names) == 1 else ""


def _built(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _address(host: str) -> x509.SubjectAlternativeName:
    """Return a server's name, which may be an address in numbers."""
    try:
        return x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    except ValueError:
        return x509.SubjectAlternativeName([x509.DNSName(host)])


def _usage(**allowed: bool) -> x509.KeyUsage:
    none = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(**(none | allowed))
