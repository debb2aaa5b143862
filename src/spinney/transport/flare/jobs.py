"""Engine jobs as folders: only the job, and names of classes that are installed at every site.

The engine would run code sent with a job. Our jobs contain no code: exactly the result of
`app_files` is sent, and a party's gate refuses anything else.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spinney.errors import PolicyError
from spinney.transport.flare.entry_points import CONDUCTOR, EARLIER, SITE

APP: Final = "spinney"
ABORTS: Final = "spinney_aborts"
"""Marks an engine job that never starts: it is a message to the coordinator."""

SERVER_FILE: Final = "config/config_fed_server.json"
PARTY_FILE: Final = "config/config_fed_client.json"
JOB_LIMIT: Final = 1 << 20
"""The largest job, in bytes."""

_SOON: Final = 0.5  # seconds between a party's requests for tasks: so it learns that a job ended


def app_files(job: bytes) -> dict[str, str]:
    """Return the files of an engine job that carries this job, by their paths."""
    # In base64, since the engine would substitute text in braces.
    args = {"job": base64.b64encode(job).decode()}
    server = {
        "format_version": 2,
        "server": {"task_request_interval": _SOON},
        "workflows": [{"id": "spinney", "path": CONDUCTOR, "args": args}],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    party = {
        "format_version": 2,
        "executors": [{"tasks": ["spinney"], "executor": {"path": SITE, "args": args}}],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    return {SERVER_FILE: _text(server), PARTY_FILE: _text(party)}


def job_meta(name: str, parties: Sequence[str], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine's metadata: which parties take part, and that all of them must."""
    return {
        "name": name,
        "resource_spec": {},
        "min_clients": len(parties),
        "mandatory_clients": list(parties),
        "deploy_map": {APP: ["server", *parties]},
        **extra,
    }


def write_job(folder: Path, name: str, parties: Sequence[str], job: bytes, **extra: Any) -> None:
    """Write an engine job's folder."""
    for path, text in app_files(job).items():
        file = folder / APP / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "meta.json").write_text(_text(job_meta(name, parties, extra)))


def job_of_args(job: str) -> bytes:
    """Return the job in a component's arguments."""
    try:
        return base64.b64decode(job[: 2 * JOB_LIMIT], validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise PolicyError("The engine job carries no readable Spinney job.") from None


def job_of_app(folder: Path, own: frozenset[str]) -> bytes:
    """Return the job that an engine job carries; raise if it carries anything else.

    Parameters
    ----------
    folder
        The engine job's folder at this site.
    own
        Files that this site's engine adds.
    """
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - own
    try:
        executor = json.loads((folder / PARTY_FILE).read_text())["executors"][0]["executor"]
        if str(executor["path"]).startswith(EARLIER):
            raise PolicyError(
                "The engine job was written by an earlier version of Spinney. Have its lead resume "
                "the run with this version: spinney job resume RUN JOB.toml."
            )
        job = job_of_args(executor["args"]["job"])
        same = all((folder / path).read_text() == text for path, text in app_files(job).items())
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise PolicyError("The engine job is not one that Spinney wrote.") from None
    if not same or found != {SERVER_FILE, PARTY_FILE}:
        raise PolicyError(
            "The engine job carries more than a Spinney job. Only installed code runs here; "
            "submit jobs with 'spinney job start'."
        )
    return job


def _text(value: Any) -> str:
    return json.dumps(value, indent=1)
