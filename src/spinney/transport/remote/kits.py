"""The authority's folder, requests and start kits on disk.

A party makes its key and keeps it; only a request leaves the party. A request and what is sent back
are small archives, `NAME.request.zip` and `NAME.signed.zip`. A start kit is a folder:

```text
startup/client.crt, client.key     whose kit it is (server.crt, server.key at the coordinator)
startup/rootCA.pem                 the authority's certificate
startup/federation.json            the federation's name, and where its coordinator is
```
"""

import json
import shutil
from dataclasses import dataclass, field
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from spinney.archives import UNREADABLE, read_archived
from spinney.errors import MissingExtraError, SettingError, StorageError
from spinney.files import replace_file
from spinney.transport.remote import certificates
from spinney.transport.remote.certificates import SERVER, Peer, holder_of

_SECRET: Final = 0o600
_LARGEST: Final = 1 << 20  # bytes of a request or of what is sent back
_PEM: Final = Encoding.PEM


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A federation's name, and where its coordinator is."""

    name: str
    host: str
    port: int
    admin_port: int


@dataclass(frozen=True)
class Credentials:
    """A start kit in memory: whose it is, and where the coordinator is."""

    address: Address
    authority: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)

    @classmethod
    def of(cls, kit: Path, own: str = "client") -> "Credentials":
        """Read a start kit; `own` is "client" or "server"."""
        startup = kit / "startup"
        names = ("rootCA.pem", f"{own}.crt", f"{own}.key")
        try:
            files = [(startup / name).read_bytes() for name in names]
        except OSError:
            raise SettingError(
                f"The start kit in {str(kit)!r} is not whole. Join the federation first: spinney "
                "party join."
            ) from None
        return cls(address_in(kit), *files)


def require_engine() -> None:
    """Raise unless gRPC is installed."""
    if find_spec("grpc") is None:
        raise MissingExtraError("grpcio", "deploy", "A deployed job")


# --- the authority --------------------------------------------------------------------------------


def make_authority(ca: Path, address: Address) -> None:
    """Make the authority that signs certificates."""
    if (ca / "rootCA.key").exists():
        raise SettingError(
            f"There is already an authority in {str(ca)!r}. Keep it: a new one would lock all "
            "parties out."
        )
    ca.mkdir(parents=True, exist_ok=True, mode=0o700)
    key, certificate = certificates.make_authority(address.name)
    _write(ca / "profile.json", msgspec.json.encode(address))
    _write(ca / "rootCA.pem", certificate.public_bytes(_PEM))
    _write(ca / "rootCA.key", certificates.key_bytes(key))


def authority_in(ca: Path) -> x509.Certificate:
    """Return the authority's certificate."""
    try:
        return x509.load_pem_x509_certificate((ca / "rootCA.pem").read_bytes())
    except (OSError, ValueError):
        raise SettingError(
            f"There is no authority in {str(ca)!r}. Make it with: spinney coordinator init."
        ) from None


def fingerprint_of(ca: Path) -> str:
    """Return the fingerprint of the authority, to be passed on through another channel."""
    return certificates.fingerprint(authority_in(ca))


# --- requests -------------------------------------------------------------------------------------


def make_request(folder: Path, *, project: str, name: str, organisation: str, role: str) -> Path:
    """Make a key and a request for a certificate; return the request, which may be sent."""
    if (folder / f"{name}.key").exists():
        raise SettingError(
            f"There is already a request for {name!r} in {str(folder)!r}. Use it, or choose "
            "another folder."
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = certificates.make_key()
    facts = {"project": project, "name": name, "cert_type": role}
    request = folder / f"{name}.request.zip"
    _write(folder / f"{name}.key", certificates.key_bytes(key))
    asked = certificates.make_request(key, name, organisation)
    _write(request, _zipped({"request.json": json.dumps(facts).encode(), f"{name}.csr": asked}))
    return request


def read_request(request: Path) -> "Request":
    """Return what a request asks for."""
    if not request.is_file():
        raise SettingError(f"There is no request {str(request)!r}. Check its path.")
    try:
        files = _unzipped(request)
        facts = json.loads(files["request.json"])
        name = str(facts["name"])
        return Request(name, str(facts["cert_type"]), files.get(f"{name}.csr", b""))
    except (*UNREADABLE, TypeError, ValueError, RecursionError):
        raise StorageError(
            f"{str(request)!r} is not a request. Make one with: spinney party request."
        ) from None


@dataclass(frozen=True)
class Request:
    """A request, read once: who asks, for which role in the words of certificates, and the key."""

    name: str
    role: str
    asked: bytes


def approve(ca: Path, request: Request, signed: Path, *, days: int, address: Address) -> Peer:
    """Sign a request; return whom the certificate belongs to."""
    if signed.exists():
        raise SettingError(
            f"The request of {request.name!r} is already signed: send {str(signed)!r} back."
        )
    authority, name = authority_in(ca), request.name
    try:
        key = (ca / "rootCA.key").read_bytes()
        made = certificates.sign_request(
            request.asked, authority, key, name=name, role=request.role, days=days
        )
    except (OSError, ValueError, TypeError, OverflowError):
        raise StorageError(f"The request of {name!r} cannot be approved.") from None
    files = {
        "signed.json": msgspec.json.encode(address),
        f"{name}.crt": made.public_bytes(_PEM),
        "rootCA.pem": authority.public_bytes(_PEM),
    }
    _write(signed, _zipped(files))
    return holder_of(made)


def assemble(signed: Path, request: Path, kit: Path, fingerprint: str) -> None:
    """Make the start kit from a signed request and the key that never left the party."""
    if (kit / "startup").exists():
        raise SettingError(
            f"There is already a start kit in {str(kit)!r}. Use it, or choose another folder."
        )
    if not signed.is_file():
        raise SettingError(f"There is no signed request {str(signed)!r}. Check its path.")
    address, certificate, authority = _signed_in(signed)
    if certificates.fingerprint(authority).casefold() != fingerprint.strip().casefold():
        raise SettingError(
            "The fingerprint is not that of the federation that signed this request. Do not "
            "join; ask the coordinator by telephone."
        )
    holder = holder_of(certificate)
    key = _key_for(certificate, request / f"{holder.name}.key")
    if not certificates.issued_by(certificate, authority):
        raise StorageError("The start kit cannot be made: its certificate has another issuer.")
    own = "server" if holder.role == SERVER else "client"
    files = {
        f"{own}.crt": certificate.public_bytes(_PEM),
        f"{own}.key": key,
        "rootCA.pem": authority.public_bytes(_PEM),
        "federation.json": msgspec.json.encode(address),
    }
    part = kit.with_name(f".{kit.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "startup").mkdir(parents=True, mode=0o700)
    part.chmod(0o700)
    for name, data in files.items():
        _write(part / "startup" / name, data)
    part.rename(kit)


# --- start kits -----------------------------------------------------------------------------------


def address_in(kit: Path) -> Address:
    """Return where the coordinator of a start kit is; a kit of version 0.1 says it in its way."""
    startup = kit / "startup"
    try:
        if (startup / "federation.json").exists():
            return msgspec.json.decode((startup / "federation.json").read_bytes(), type=Address)
        if (startup / "fed_admin.json").exists():
            admin = json.loads((startup / "fed_admin.json").read_text())["admin"]
            port = int(admin["port"])
            return Address(
                name=admin["project_name"], host=admin["host"], port=port, admin_port=port
            )
        server = json.loads((startup / "fed_client.json").read_text())["servers"][0]
        host, _, number = str(server["service"]["target"]).rpartition(":")
        return Address(name=server["name"], host=host, port=int(number), admin_port=int(number))
    except (OSError, ValueError, LookupError, TypeError, msgspec.MsgspecError):
        raise SettingError(
            f"There is no start kit in {str(kit)!r}. Make it with: spinney party join."
        ) from None


def certificate_in(kit: Path, own: str, command: str) -> x509.Certificate:
    """Return a start kit's own certificate; `own` is "client" or "server"."""
    try:
        return x509.load_pem_x509_certificate((kit / "startup" / f"{own}.crt").read_bytes())
    except (OSError, ValueError):
        raise SettingError(
            f"There is no start kit in {str(kit)!r}. Make it with: {command}."
        ) from None


def tighten(kit: Path) -> None:
    """Let nobody but its owner read a start kit, also one that an earlier version made."""
    for path in (kit, kit / "startup"):
        if path.is_dir():
            path.chmod(0o700)
    for path in (kit / "startup").glob("*"):
        if path.is_file():
            path.chmod(_SECRET)


def _key_for(certificate: x509.Certificate, path: Path) -> bytes:
    """Return the private key that belongs to a certificate."""
    try:
        key = path.read_bytes()
        made: Any = load_pem_private_key(key, None)
        if made.public_key() == certificate.public_key():
            return key
    except (OSError, ValueError, TypeError):
        pass
    raise StorageError(
        "The start kit cannot be made. Was the request signed for this folder's key?"
    )


def _signed_in(signed: Path) -> tuple[Address, x509.Certificate, x509.Certificate]:
    try:
        files = _unzipped(signed)
        address = _address_of(files["signed.json"])
        (own,) = (data for name, data in files.items() if name.endswith(".crt"))
        authority = x509.load_pem_x509_certificate(files["rootCA.pem"])
        return address, x509.load_pem_x509_certificate(own), authority
    except (*UNREADABLE, TypeError, ValueError, msgspec.MsgspecError):
        raise StorageError(
            f"{str(signed)!r} is not a signed request. Ask the coordinator to approve the request "
            "again."
        ) from None


def _address_of(data: bytes) -> Address:
    return msgspec.json.decode(data, type=Address)


def _zipped(files: dict[str, bytes]) -> bytes:
    made = BytesIO()
    with ZipFile(made, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


def _unzipped(path: Path) -> dict[str, bytes]:
    """Return the files of a small archive by name; nothing is written to disk."""
    with ZipFile(path) as archive:
        if sum(file.file_size for file in archive.infolist()) > _LARGEST:
            raise ValueError
        return {file.filename: read_archived(archive, file.filename) for file in archive.infolist()}


def _write(path: Path, data: bytes) -> None:
    replace_file(path, data, mode=_SECRET)
    path.chmod(_SECRET)
