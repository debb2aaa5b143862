"""What is measured of a running party."""

from contextlib import suppress
from pathlib import Path
from time import time

from spinney.deployment.expiry import authority_of, days_left
from spinney.deployment.metrics import Measuring, Reading, measures_of
from spinney.deployment.party.budget import left_per_unit
from spinney.deployment.party.config import PartyFile, load_party
from spinney.deployment.standing import CONNECTED, StandingFile
from spinney.errors import SpinneyError
from spinney.report.file_names import MODEL
from spinney.transport.remote import kits


def party_measures(path: Path, standing: StandingFile) -> Measuring:
    """Return a function that measures a party."""
    kit = load_party(path).kit
    own = kits.certificate_in(kit, "client", "spinney party join").not_valid_after_utc
    authority = authority_of(kit).not_valid_after_utc
    epsilon = _Epsilon(path)

    def measure() -> list[Reading]:
        now, records = standing.now, load_party(path).records
        days = {"own": days_left(own), "authority": days_left(authority)}
        found = measures_of(now, records, days)
        found += [
            Reading("connected", "Whether the party is connected.", now.state == CONNECTED),
            Reading(
                "questions_answered",
                "Questions answered since the process began, refusals too.",
                now.answered,
                is_counter=True,
            ),
            Reading(
                "answer_bytes",
                "Bytes sent to the coordinator since the process began.",
                now.bytes_out,
                is_counter=True,
            ),
            Reading(
                "runs", "Runs that the party has records of.", _runs(records, now.run), "state"
            ),
            Reading(
                "epsilon_left",
                "What all later jobs on the table may cost; no limit: none.",
                epsilon.left(),
                "unit",
            ),
        ]
        if now.last_contact:
            since = time() - now.last_contact
            found.append(Reading("last_contact_seconds", "Since the last message came.", since))
        return found

    return measure


def _runs(records: Path, now: str) -> dict[str, float]:
    """Return how many runs are under way, left a model here, and left none."""
    found = {"under way": 0.0, "model kept": 0.0, "no model": 0.0}
    for folder in (records / "runs").glob("*/"):
        kept = "model kept" if (folder / MODEL).exists() else "no model"
        found["under way" if folder.name == now else kept] += 1
    return found


class _Epsilon:
    """What is left of a party's budget; read again if its ledger or its file has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._left: dict[str, float] = {}

    def left(self) -> dict[str, float]:
        """Return the epsilon that is left, by unit."""
        with suppress(SpinneyError, OSError):  # its log says so when it is needed
            file = load_party(self._path)
            seen = self._stamp(file)
            if seen != self._seen:
                left = left_per_unit(file)
                self._left = {unit.value: float(amount) for unit, amount in left.items()}
                self._seen = seen
        return self._left

    def _stamp(self, file: PartyFile) -> tuple[int, ...]:
        found = [path for path in (self._path, file.ledger_file) if path.exists()]
        return tuple(path.stat().st_mtime_ns for path in found)
