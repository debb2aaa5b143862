"""Start kits: enrolment with the engine's own tools, and our settings for both of its sides.

A party makes its key and keeps it; only a request leaves the party. The authority's key stays with
the coordinator. The engine allows by default, and we forbid: code sent with a job, shell commands,
and logs streamed to the coordinator.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from zipfile import BadZipFile, ZipFile

from spinney.errors import MissingExtraError, SettingError, StorageError
from spinney.files import replace_file
from spinney.transport.flare.entry_points import GATE, KEEPER, LOG_FORMAT, PLACE

_NOBODY: Final = {
    "submit_job": "none",
    "clone_job": "none",
    "manage_job": "none",
    "download_job": "none",
    "download_job_components": "none",
    "operate": "none",
    "shell_commands": "none",
    "byoc": "none",
    "server-predeployed-flwr": "none",
    "view": "any",
}
_LEAD: Final = _NOBODY | {
    "submit_job": "any",
    "manage_job": "n:submitter",
    "download_job": "n:submitter",
    "download_job_components": "n:submitter",
}
_RIGHTS: Final = {
    "project_admin": _NOBODY,
    "org_admin": _NOBODY,
    "lead": _LEAD,
    "member": _NOBODY,
}


def require_engine() -> None:
    """Raise unless the engine is installed."""
    if find_spec("nvflare") is None:
        raise MissingExtraError("nvflare", "flare", "A deployed job")


def tool(arguments: Sequence[str], failure: str) -> None:
    """Run the engine's command line tool."""
    require_engine()
    command = [sys.executable, "-m", "nvflare.cli", *arguments]
    done = subprocess.run(  # noqa: S603  our own interpreter, our own arguments
        command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode == 0:
        return
    said = (done.stderr + done.stdout).strip()
    lines = [line for line in said.splitlines() if line.strip()]
    raise StorageError(failure, local=f"The engine says: {' '.join(lines)[:600]}")


def make_authority(ca: Path, *, project: str, host: str, port: int, admin_port: int) -> None:
    """Make the authority that signs certificates, and the profile that all kits share."""
    require_engine()
    if (ca / "rootCA.key").exists():
        raise SettingError(
            f"There is already an authority in {str(ca)!r}. Keep it: a new one would lock all "
            "parties out."
        )
    ca.mkdir(parents=True, exist_ok=True)
    server = {"host": host, "fed_learn_port": port, "admin_port": admin_port}
    profile = {
        "name": project,
        "scheme": "grpc",
        "connection_security": "mtls",
        "server": server,
    }
    profile_of(ca).write_text(json.dumps(profile, indent=1))  # JSON is YAML
    tool(
        ["cert", "init", "--profile", str(profile_of(ca)), "-o", str(ca)],
        "The authority cannot be made.",
    )


def profile_of(ca: Path) -> Path:
    """Return the file with the federation's address."""
    return ca / "profile.yml"


def make_request(folder: Path, *, project: str, participant: dict[str, Any]) -> Path:
    """Make a key and a request for a certificate; return the request, which may be sent."""
    name = str(participant["name"])
    if (folder / f"{name}.key").exists():
        raise SettingError(
            f"There is already a request for {name!r} in {str(folder)!r}. Use it, or choose "
            "another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    definition = folder / "participant.yml"
    definition.write_text(json.dumps({"name": project, "participants": [participant]}, indent=1))
    tool(
        ["cert", "request", "-p", str(definition), "--out", str(folder), "--force"],
        f"The request for {name!r} cannot be made.",
    )
    return folder / f"{name}.request.zip"


def read_request(request: Path) -> tuple[str, str]:
    """Return who requests a certificate, and its kind in the engine's words."""
    if not request.is_file():
        raise SettingError(f"There is no request {str(request)!r}. Check its path.")
    try:
        with ZipFile(request) as files:
            facts = json.loads(files.read("request.json"))
        return str(facts["name"]), str(facts["cert_type"])
    except (OSError, BadZipFile, KeyError, TypeError, ValueError):
        raise StorageError(
            f"{str(request)!r} is not a request. Make one with: spinney party request."
        ) from None


def approve(ca: Path, request: Path, signed: Path, *, days: int) -> None:
    """Sign a request."""
    if signed.exists():
        raise SettingError(
            f"The request {request.name!r} is already signed: send {str(signed)!r} back."
        )
    arguments = ["--ca-dir", str(ca), "--profile", str(profile_of(ca)), "--out", str(signed)]
    tool(
        ["cert", "approve", str(request), *arguments, "--valid-days", str(days)],
        f"The request {request.name!r} cannot be approved.",
    )


def assemble(signed: Path, request: Path, kit: Path, fingerprint: str) -> None:
    """Make the start kit from a signed request and the key that never left the party."""
    if (kit / "startup").exists():
        raise SettingError(
            f"There is already a start kit in {str(kit)!r}. Use it, or choose another folder."
        )
    if not signed.is_file():
        raise SettingError(f"There is no signed request {str(signed)!r}. Check its path.")
    workspace = kit.with_name(f".{kit.name}.part")
    shutil.rmtree(workspace, ignore_errors=True)
    arguments = ["--request-dir", str(request), "-w", str(workspace)]
    try:
        tool(
            ["package", str(signed), *arguments, "--fingerprint", fingerprint],
            "The start kit cannot be made. Was the request signed for this folder's key?",
        )
        (made,) = workspace.glob("*/prod_*/*")
        kit.parent.mkdir(parents=True, exist_ok=True)
        made.rename(kit)
    except StorageError as error:
        if "fingerprint" in error.local.casefold():  # the engine's text would show the one it found
            raise SettingError(
                "The fingerprint is not that of the federation that signed this request. Do not "
                "join; ask the coordinator by telephone."
            ) from None
        raise
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def fingerprint_of(ca: Path) -> str:
    """Return the fingerprint of the authority, to be passed on through another channel."""
    facts = json.loads((ca / "ca.json").read_text())
    return str(facts["rootCA_fingerprint"])


def settle_server(kit: Path) -> None:
    """Write the coordinator's engine settings: one job at a time, no streaming, no code."""
    store = kit / "jobs"
    _write(
        kit / "local" / "resources.json",
        {
            "format_version": 2,
            "class_list_enforcement_mode": "enforce",
            "class_allow_list": ["spinney."],
            "servers": [
                {
                    "admin_storage": "transfer",
                    "max_num_clients": 100,
                    "heart_beat_timeout": 20,
                    "download_job_url": "http://localhost/",
                    "admin_timeout": 10.0,
                }
            ],
            "snapshot_persistor": {
                "path": "nvflare.app_common.state_persistors.storage_state_persistor."
                "StorageStatePersistor",
                "args": {"uri_root": "/", "storage": _storage(kit / "snapshots")},
            },
            "components": [
                {
                    "id": "job_scheduler",
                    "path": "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                    "args": {
                        "max_jobs": 1,
                        "max_schedule_count": 1_000_000,  # until the parties are connected
                        "min_schedule_interval": 1.0,
                        "max_schedule_interval": 2.0,
                    },
                },
                {
                    "id": "job_manager",
                    "path": "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                    "args": {"uri_root": str(store), "job_store_id": "job_store"},
                },
                {
                    "id": "job_store",
                    "path": "nvflare.app_common.storages.filesystem_storage.FilesystemStorage",
                },
                {
                    "id": "process_launcher",
                    "path": "nvflare.app_common.job_launcher.server_process_launcher."
                    "ServerProcessJobLauncher",
                    "args": {},
                },
                {"id": "keeper", "path": KEEPER, "args": {}},
            ],
        },
    )
    _settle(kit)


def settle_party(kit: Path) -> None:
    """Write a party's engine settings: its gate, no code, no shell, no streaming."""
    _write(
        kit / "local" / "resources.json",
        {
            "format_version": 2,
            "class_list_enforcement_mode": "enforce",
            "class_allow_list": ["spinney."],
            "allow_log_streaming": False,
            "app_validator": {"path": GATE, "args": {}},
            "client": {"retry_timeout": 30, "compression": "Gzip"},
            "components": [
                {
                    "id": "resource_manager",
                    "path": "nvflare.app_common.resource_managers.gpu_resource_manager."
                    "GPUResourceManager",
                    "args": {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0, "expiration_period": 300},
                },
                {
                    "id": "resource_consumer",
                    "path": "nvflare.app_common.resource_consumers.gpu_resource_consumer."
                    "GPUResourceConsumer",
                    "args": {},
                },
                {
                    "id": "process_launcher",
                    "path": "nvflare.app_common.job_launcher.client_process_launcher."
                    "ClientProcessJobLauncher",
                    "args": {},
                },
                {"id": "place", "path": PLACE, "args": {}},
            ],
        },
    )
    _settle(kit)


def _settle(kit: Path) -> None:
    _write(kit / "local" / "authorization.json", {"format_version": "1.0", "permissions": _RIGHTS})
    _write(kit / "local" / "log_config.json", _logging())
    (kit / "transfer").mkdir(exist_ok=True)


def _storage(folder: Path) -> dict[str, Any]:
    return {
        "path": "nvflare.app_common.storages.filesystem_storage.FilesystemStorage",
        "args": {"root_dir": str(folder), "uri_root": "/"},
    }


def _logging() -> dict[str, Any]:
    """Return the logging settings: our logs as JSON lines, engine warnings in a separate file."""
    rotating = {
        "class": "logging.handlers.RotatingFileHandler",
        "level": "INFO",
        "mode": "a",
        "maxBytes": 20 << 20,
        "backupCount": 5,
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": {"format": "%(asctime)s %(name)s %(levelname)s %(message)s"},
            "json": {"()": LOG_FORMAT},
        },
        "handlers": {
            "logFileHandler": {**rotating, "formatter": "plain", "filename": "log.txt"},
            "spinneyHandler": {**rotating, "formatter": "json", "filename": "spinney.jsonl"},
        },
        "loggers": {
            "root": {"level": "WARNING", "handlers": ["logFileHandler"]},
            "spinney": {"level": "INFO", "handlers": ["spinneyHandler"], "propagate": False},
        },
    }


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(value, indent=1).encode())
