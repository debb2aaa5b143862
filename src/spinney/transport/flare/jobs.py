"""Engine jobs as folders: only names of classes that are installed at every site, and the job.

The engine would run code sent with a job. Ours has none: what is sent is exactly what `app_files`
returns, and a party's gate refuses anything else.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from spinney.errors import PolicyError

APP: Final = "spinney"
ABORTS: Final = "spinney_aborts"
"""Says of an engine job that it is never to start: it is a word to the coordinator."""

SERVER_FILE: Final = "config/config_fed_server.json"
PARTY_FILE: Final = "config/config_fed_client.json"
JOB_LIMIT: Final = 1 << 20
"""How many bytes a job may have."""

_SOON: Final = 0.5  # seconds: parties ask for tasks, of which there are none, and learn of the end
_CONDUCTOR: Final = "spinney.deployment.coordinator.process.Conductor"
_SITE: Final = "spinney.deployment.party.process.Site"


def app_files(job: bytes) -> dict[str, str]:
    """Return the files of an engine job that carries this job, by their paths."""
    # In base64, since the engine would resolve what stands in braces.
    args = {"job": base64.b64encode(job).decode()}
    server = {
        "format_version": 2,
        "server": {"task_request_interval": _SOON},
        "workflows": [{"id": "spinney", "path": _CONDUCTOR, "args": args}],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    party = {
        "format_version": 2,
        "executors": [{"tasks": ["spinney"], "executor": {"path": _SITE, "args": args}}],
        "components": [],
        "task_data_filters": [],
        "task_result_filters": [],
    }
    return {SERVER_FILE: _text(server), PARTY_FILE: _text(party)}


def job_meta(name: str, parties: Sequence[str], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the engine must know: who takes part, and that all must."""
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
    """Return the job that stands in a component's arguments."""
    try:
        return base64.b64decode(job[: 2 * JOB_LIMIT], validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise PolicyError("The engine job carries no Spinney job that can be read.") from None


def job_of_app(folder: Path, own: frozenset[str]) -> bytes:
    """Return the job that an engine job carries; refuse one that carries anything else.

    Parameters
    ----------
    folder
        The engine job's folder at this site.
    own
        Files that this site's engine adds.
    """
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - own
    try:
        config = json.loads((folder / PARTY_FILE).read_text())
        job = job_of_args(config["executors"][0]["executor"]["args"]["job"])
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
