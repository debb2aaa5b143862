"""The condition of a side, for `status`: its process, connection, certificates, disk, versions.

The lock says whether the process lives; the file that the process writes says how it stands. If the
two do not agree, the status says so.
"""

import platform
import shutil
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any, Final

from cryptography import x509

from spinney import __version__
from spinney.deployment.expiry import days_left
from spinney.deployment.standing import (
    CONNECTED,
    LISTENING,
    STALE,
    STARTING,
    STOPPED,
    ProcessStanding,
    standing_in,
)
from spinney.report.render import size
from spinney.report.words import some

_LITTLE: Final = 10**9  # bytes
RUNNING, NOT_RUNNING = "running", "not running"


def process_facts(kit: Path, *, running: bool) -> dict[str, Any]:
    """Return whether a process runs, how it is connected, and which versions it has."""
    found = standing_in(kit)
    facts: dict[str, Any] = {
        "process": RUNNING if running else NOT_RUNNING,
        "connection": _connection(found, running=running),
        "versions": {"spinney": __version__, "python": platform.python_version()},
    }
    if found is not None and running:
        facts["versions"] = {"spinney": found.spinney, "python": found.python}
        facts["cage"] = found.cage
        facts["run"] = found.run or None
    return facts


def _connection(found: ProcessStanding | None, *, running: bool) -> dict[str, Any]:
    """Return how a process is connected; what a dead one wrote is not believed."""
    if found is None:
        reason = "The process has not written its status yet." if running else ""
        return {"state": "unknown" if running else "none", "reason": reason}
    said: dict[str, Any] = {"state": found.state, "since": _at(found.since)}
    if found.last_contact:
        said["last_contact"] = _at(found.last_contact)
    if not running:
        said["state"] = "none"
        if found.state != STOPPED:
            said["reason"] = (
                f"The process ended unexpectedly; at {_at(found.updated)} it was {found.state}."
            )
        elif found.reason:
            said["reason"] = f"Before it stopped: {found.reason}"
        return said
    if time() - found.updated > STALE:
        said["state"] = "unknown"
        said["reason"] = (
            f"The process has not updated its status since {_at(found.updated)}, when it was "
            f"{found.state}."
        )
    elif found.reason:
        said["reason"] = found.reason
    return said


def connected_in(kit: Path, *, running: bool) -> dict[str, float]:
    """Return who is connected to a coordinator, and how many seconds ago each was heard."""
    found = standing_in(kit)
    if found is None or not running or time() - found.updated > STALE:
        return {}
    return {name: round(time() - at, 1) for name, at in sorted(found.heard.items())}


def certificate_facts(certificate: x509.Certificate) -> dict[str, Any]:
    """Return until when a certificate is valid."""
    last = certificate.not_valid_after_utc
    return {"until": f"{last:%Y-%m-%d}", "days": round(days_left(last), 1)}


def disk_facts(folder: Path) -> dict[str, Any]:
    """Return the free space of the disk that holds a folder, or will."""
    while not folder.exists():
        folder = folder.parent
    return {"free_bytes": shutil.disk_usage(folder).free}


def warnings_of(facts: dict[str, Any], expiring: list[str]) -> list[str]:
    """Return what an operator should do something about."""
    found = [words for words in expiring if words]
    free = facts["disk"]["free_bytes"]
    if free < _LITTLE:
        found.append(f"Only {size(free)} of the disk are free. Make room: jobs pause without it.")
    runs, installed = facts["versions"]["spinney"], __version__
    if runs != installed:
        found.append(f"The process runs Spinney {runs}; {installed} is installed. Restart it.")
    if facts["process"] == RUNNING and facts.get("cage") == "none":
        found.append("This system has no Landlock: the process is not confined to its own files.")
    return found


def in_words(facts: dict[str, Any]) -> dict[str, str]:
    """Return the facts of a status as one text each."""
    words: dict[str, str] = {}
    for key, value in facts.items():
        if key in _WORDS and isinstance(value, dict):
            words |= _WORDS[key](key, value)
        elif key == "cage":
            words[key] = _cage_words(value)
        elif value is not None and value not in ("", {}):
            words[_LABELS.get(key, key)] = str(value)
    return words


def _connection_words(key: str, value: dict[str, Any]) -> dict[str, str]:
    state, reason = value["state"], value.get("reason", "")
    text = f"{state}. {reason}" if reason else state
    if state in (CONNECTED, LISTENING, STARTING):
        whom = {CONNECTED: " to the coordinator", LISTENING: " for parties and people"}
        text = f"{state}{whom.get(state, '')} since {in_utc(value['since'])}"
    last = value.get("last_contact")
    return {key: text} | ({"last message": f"came at {in_utc(last)}"} if last else {})


def _certificate_words(key: str, value: dict[str, Any]) -> dict[str, str]:
    days = value["days"]
    left = f"{days:.0f} days left" if days >= 0 else "expired"
    whose = {"authority": "its certificate, which signs all others, is "}.get(key, "")
    return {key: f"{whose}valid until {value['until']} ({left})"}


def _disk_words(key: str, value: dict[str, Any]) -> dict[str, str]:
    return {key: f"{size(value['free_bytes'])} free"}


def _ledger_words(key: str, value: dict[str, Any]) -> dict[str, str]:
    if "problem" in value:
        return {key: value["problem"]}
    entries = some(value["entries"], "entry", "entries")
    return {key: f"{entries}; hash of the last: {value['hash']}"}


def _ledgers_words(key: str, value: dict[str, Any]) -> dict[str, str]:
    ends = [f"{name} {some(number, 'entry', 'entries')}" for name, number in value.items()]
    return {key: f"{', '.join(ends)}; their signed heads are kept here"} if ends else {}


def _cage_words(cage: str) -> str:
    if cage == "none":
        return "none: the process can reach every file of its user"
    return f"{cage}: the process reaches only what it needs"


def _version_words(key: str, value: dict[str, Any]) -> dict[str, str]:
    return {key: f"Spinney {value['spinney']}, Python {value['python']}"}


def _heard_words(key: str, value: dict[str, Any]) -> dict[str, str]:
    heard = [f"{name} (last message {seconds:.0f} s ago)" for name, seconds in value.items()]
    return {key: ", ".join(heard) or "nobody"}


def _count_words(key: str, value: dict[str, Any]) -> dict[str, str]:
    counts = [f"{number} {state}" for state, number in value.items() if number]
    return {key: ", ".join(counts) or "none"}


_LABELS: Final = {
    "kit": "start kit",
    "fingerprint": "table's fingerprint",
    "rounds": "rounds at most",
    "held_out": "held back",
    "run": "present run",
}
_WORDS: Final = {
    "connection": _connection_words,
    "certificate": _certificate_words,
    "authority": _certificate_words,
    "disk": _disk_words,
    "ledger": _ledger_words,
    "ledgers": _ledgers_words,
    "versions": _version_words,
    "connected": _heard_words,
    "runs": _count_words,
}


def in_utc(at: str) -> str:
    """Return a time in ISO format as people read it: to the second, with its zone."""
    return f"{at[:19].replace('T', ' ')} UTC"


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(sep=" ", timespec="seconds")
