"""Start kits and parties without an engine: certificates made here, messages passed by hand."""

import re
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from spinney.deployment.coordinator.config import CoordinatorFile, load_coordinator
from spinney.deployment.coordinator.runs import RunFolder, Status
from spinney.deployment.job import (
    TRAIN,
    Agreed,
    Attempt,
    agreement_of,
)
from spinney.deployment.party.config import load_party
from spinney.deployment.party.process import RunParty
from spinney.jobs.file import load_job
from spinney.protocols.secure_sums.channel import SecureSums
from spinney.protocols.secure_sums.roster import exchange_keys
from spinney.transport.channel import Channel
from spinney.transport.remote.channel import Limits, RemoteChannel
from spinney.transport.remote.kits import Address
from spinney.transport.remote.resident import Resident

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CLINICS = ("st-mary", "north", "lakeside")
ASKER = "alice@clinics.example.org"


@cache
def _key(name: str) -> Any:
    """Return one key for each name: making them takes long."""
    return rsa.generate_private_key(65537, 2048)


class Authority:
    """An authority that signs certificates."""

    def __init__(self, number: int = 1, name: str = "clinics") -> None:
        self.key = _key(f"authority {number}")
        own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self.signed(name, self.key, issuer=own, role="")

    @classmethod
    def at(cls, folder: Path) -> "Authority":
        """Return the authority whose key is in a coordinator's folder."""
        found = cls.__new__(cls)
        found.key = serialization.load_pem_private_key((folder / "rootCA.key").read_bytes(), None)
        found.certificate = x509.load_pem_x509_certificate((folder / "rootCA.pem").read_bytes())
        return found

    def signed(
        self,
        name: str,
        key: Any,
        *,
        issuer: Any = None,
        days: int = 30,
        first: int = -9,
        role: str = "client",
    ) -> Any:
        now = datetime.now(UTC)
        subject = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if role:
            subject.append(x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, role))
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(issuer or self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=first))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=not role, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def kit(
        self,
        folder: Path,
        name: str,
        *,
        days: int = 30,
        first: int = -9,
        role: str = "client",
        address: Address | None = None,
    ) -> None:
        """Write a start kit."""
        startup = folder / "startup"
        startup.mkdir(parents=True)
        key = _key(name)
        plain = serialization.NoEncryption()
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        own = "server" if role == "server" else "client"
        (startup / f"{own}.key").write_bytes(key.private_bytes(pem, form, plain))
        shown = self.signed(name, key, days=days, first=first, role=role)
        (startup / f"{own}.crt").write_bytes(shown.public_bytes(pem))
        (startup / "rootCA.pem").write_bytes(self.certificate.public_bytes(pem))
        if address is not None:
            (startup / "federation.json").write_bytes(msgspec.json.encode(address))


def write_party(folder: Path, name: str, policy: str = "", table: str = "", more: str = "") -> Path:
    """Write a party's file over the example's table; it asks for two parties by name."""
    policy = policy if "min_parties" in policy else f"min_parties = 2\n{policy}"
    own = name if name in CLINICS else CLINICS[0]
    table = table or f'source = "csv"\npath = "{EXAMPLES / own}.csv"\nrow_id = "visit"'
    path = folder / name / "party.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'[party]\nname = "{name}"\n[table]\n{table}\n[policy]\n{policy}\n{more}')
    return path


def agreed_job(
    folder: Path,
    job: str = "",
    parties: tuple[str, ...] = CLINICS,
    kind: str = TRAIN,
    held_out: float = 0.0,
    **settings: Any,
) -> Agreed:
    """Return a job over the example's schema, with an estimator's defaults."""
    text = (EXAMPLES / "three_clinics.toml").read_text()
    schema = text.split("[schema]")[1].split("[[party]]")[0]
    if "regression" in job:  # of days of stay
        (days,) = re.findall(r"stay_days = .*\n", schema)
        schema = schema.replace(days, 'readmitted = { kind = "boolean" }\n')
        facts = 'label = "stay_days"\nrange = [0, 365]\n'
        schema = re.sub(r'label = "readmitted"\nclasses = .*\n', facts, schema)
    own: dict[str, str] = {"n_estimators": "5", "max_depth": "3"}
    if "private" not in job:
        own |= {"secure_sum": "false", "coordinator": '"sighted"'}
    if "protocol" not in job or "horizontal" in job or "extra" in job:
        own["min_samples_leaf"] = "1"
    chosen = own | {k: str(v) for k, v in settings.items()}
    lines = "\n".join(f"{key} = {value}" for key, value in chosen.items() if value != "None")
    names = ", ".join(f'"{name}"' for name in parties)
    path = folder / "job.toml"
    path.write_text(
        f'[job]\nname = "q3"\nparties = [{names}]\n{job}\n[settings]\n{lines}\n[schema]{schema}'
        f"[simulation]\nheld_out = {held_out}\n"
    )
    return agreement_of(load_job(path, deployed=True), kind)


class Sites:
    """Parties in this process, each behind its own resident; `bytes_to` reaches them."""

    def __init__(self, folder: Path, agreed: Agreed, run: str = "run-1", attempt: int = 1) -> None:
        self.agreed, self.run, self.attempt = agreed, run, attempt
        self.residents = {}
        self.sides: list[RunParty] = []
        for name in agreed.parties:
            party = load_party(folder / name / "party.toml")
            side = RunParty(party, agreed, run, attempt, asker=ASKER)
            self.sides.append(side)
            self.residents[name] = Resident(
                side, run=run, attempt=attempt, known=side.known, hold=60.0
            )

    def bytes_to(self, targets: Any, data: bytes) -> dict[str, object]:
        return {name: self.residents[name].answer(data) for name in targets}

    def close(self) -> None:
        """End the job at all parties."""
        for side in self.sides:
            side.close()

    def keyed(self, wire: RemoteChannel | None = None, **how: Any) -> Channel:
        """Return a channel to parties that share keys, with masked sums if the job has them."""
        wire = wire or self.channel()
        how = {"needs_all": self.agreed.needs_all, **how}
        settings = exchange_keys(wire, f"{self.run}/{self.attempt}", self.agreed.parties, **how)
        return SecureSums(wire, settings) if self.agreed.is_masked else wire

    def channel(self, kind: type[RemoteChannel] = RemoteChannel) -> RemoteChannel:
        parties = self.agreed.parties
        return kind(
            self.bytes_to,
            run=self.run,
            attempt=self.attempt,
            parties=parties,
            present=parties,
            least=len(parties),
            limits=Limits(silence=1.0),
        )


def kits(folder: Path, names: tuple[str, ...] = CLINICS) -> Authority:
    """Give every party a start kit of one authority."""
    authority = Authority()
    for name in names:
        authority.kit(folder / name / "kit", name)
    return authority


def clinics_in(folder: Path, names: tuple[str, ...] = CLINICS) -> Path:
    """Make parties with kits and tables; return the folder."""
    kits(folder, names)
    for name in names:
        write_party(folder, name)
    return folder


def status_of(folder: Path, run: str = "run-1") -> Status:
    """Return how a run stands."""
    found = RunFolder(folder / "runs", run).status()
    assert found is not None
    return found


def coordinator_in(folder: Path) -> CoordinatorFile:
    """Write a coordinator's file."""
    path = folder / "coordinator.toml"
    path.write_text(
        '[coordinator]\nname = "clinics"\nhost = "localhost"\n'
        "[limits]\nsilence_seconds = 5\nreply_seconds = 5\n"
    )
    file = load_coordinator(path)
    msgspec.structs.force_setattr(file.limits, "silence_seconds", 2.0)  # as no file may say
    return file


def attempt_of(agreed: Agreed, run: str = "run-1", attempt: int = 1) -> Attempt:
    """Return an attempt of a run, with all its parties."""
    return Attempt(run, attempt, agreed.parties)
