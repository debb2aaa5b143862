"""Enrolment: each organisation makes its own key, and the coordinator signs its certificate."""

import re
from pathlib import Path

import msgspec

from spinney.deployment.coordinator.config import CoordinatorFile, load_coordinator
from spinney.deployment.coordinator.members import Members, Signed
from spinney.errors import SettingError
from spinney.transport.remote import kits
from spinney.transport.remote.certificates import LEAD, MEMBER, PARTY, SERVER

_ROLE_OF_KIND = {PARTY: "party", LEAD: "lead", MEMBER: "member"}
ROLES = tuple(_ROLE_OF_KIND.values())
_PARTY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_PERSON = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}")


def init(path: Path) -> str:
    """Create a federation's authority and the coordinator's start kit; return the fingerprint."""
    file = load_coordinator(path)
    kits.make_authority(file.ca, file.address)
    _make_server_kit(file, file.folder / "request", file.kit)
    return kits.fingerprint_of(file.ca)


def renew(path: Path, kit: str) -> None:
    """Make the coordinator a new start kit, with a new key, before its certificate expires."""
    file = load_coordinator(path)
    _make_server_kit(file, file.folder / f"request-{kit}", file.folder / kit)


_DAYS = 365


def _make_server_kit(file: CoordinatorFile, request: Path, kit: Path) -> None:
    """Make the coordinator's key, certificate and start kit."""
    own = file.coordinator
    if (kit / "startup").exists():
        raise SettingError(
            f"There is already a start kit in {str(kit)!r}. Use it, or choose another folder."
        )
    made = kits.make_request(
        request,
        project=own.name,
        name=own.host,
        organisation=_organisation(own.organisation),
        role=SERVER,
    )
    signed = request / f"{own.host}.signed.zip"
    kits.approve(file.ca, kits.read_request(made), signed, days=_DAYS, address=file.address)
    kits.assemble(signed, request, kit, kits.fingerprint_of(file.ca))


def request(name: str, federation: str, role: str, organisation: str, folder: Path) -> Path:
    """Create a key, which stays here, and a request for the coordinator; return the request."""
    if role not in ROLES:
        raise SettingError(f"role must be {' or '.join(map(repr, ROLES))}; got {role!r}.")
    if role == "party" and not _PARTY.fullmatch(name):
        raise SettingError(
            f"A party's name must be at most 63 letters, digits, '_' or '-'; got {name!r}."
        )
    if role != "party" and not _PERSON.fullmatch(name):
        raise SettingError(f"A person's name must be an e-mail address; got {name!r}.")
    (kind,) = (kind for kind, known in _ROLE_OF_KIND.items() if known == role)
    own = _organisation(organisation or name)
    return kits.make_request(folder, project=federation, name=name, organisation=own, role=kind)


class Approval(msgspec.Struct, frozen=True):
    """The certificate that the coordinator signed, and for whom."""

    name: str
    role: str
    signed: Path
    fingerprint: str  # to send over another channel


def approve(path: Path, request_file: Path, days: int) -> Approval:
    """Sign the request of a party or a person."""
    file = load_coordinator(path)
    request = kits.read_request(request_file)  # once: it may be replaced at any moment
    name, kind = request.name, request.role
    if kind not in _ROLE_OF_KIND:
        raise SettingError(
            f"The request of {name!r} asks for a certificate of kind {kind!r}. The coordinator "
            "signs only for parties, and for people as 'lead' or 'member'."
        )
    if not (_PARTY if kind == PARTY else _PERSON).fullmatch(name) or (
        name.casefold() == file.address.host.casefold()
    ):
        raise SettingError(f"The request is for the name {name!r}, which nobody may have.")
    members = Members(file.folder)
    members.require_same_case(name)
    signed = request_file.with_name(f"{name}.signed.zip")
    holder = kits.approve(file.ca, request, signed, days=days, address=file.address)
    members.admit(holder)  # a removed member may be approved again
    return Approval(holder.name, _ROLE_OF_KIND[holder.role], signed, kits.fingerprint_of(file.ca))


def join(signed: Path, request_folder: Path, kit: Path, fingerprint: str) -> None:
    """Create the start kit in the place that holds the key."""
    kits.assemble(signed, request_folder, kit, fingerprint)


def remove(path: Path, name: str) -> None:
    """Remove a party or a person from the federation, with every certificate signed so far."""
    Members(load_coordinator(path).folder).remove(name)


def revoke(path: Path, serial: str) -> None:
    """Refuse one certificate from now on."""
    Members(load_coordinator(path).folder).revoke(serial)


def signed_certificates(path: Path) -> list[Signed]:
    """Return the certificates that the coordinator has signed, oldest first."""
    found = Members(load_coordinator(path).folder).signed()
    return [
        msgspec.structs.replace(one, role=_ROLE_OF_KIND.get(one.role, one.role)) for one in found
    ]


def _organisation(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
