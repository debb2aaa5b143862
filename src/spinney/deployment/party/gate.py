"""The party's gate: the engine asks it before a job's process is started.

It sees the engine job as it was sent and signed. What is not exactly a Spinney job is refused, and
so is a job that the party's policy does not allow. The table is not opened.
"""

import logging
import os
import shutil
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from nvflare.apis.app_validation import AppValidator
from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE

from spinney.deployment.job import PROPOSE, Agreed
from spinney.deployment.party.admission import Accepted, count_job
from spinney.deployment.party.config import load_party
from spinney.deployment.party.identity import name_in
from spinney.deployment.party.policy import check_policy
from spinney.deployment.process import PARTY_VARIABLE
from spinney.errors import PolicyError, SpinneyError
from spinney.transport.flare.jobs import job_of_app
from spinney.transport.flare.wire import full_disk

_LOG: Final = logging.getLogger("spinney.gate")
_KEPT_JOBS: Final = 20  # of which the engine's own files stay


_SIGNATURES: Final = frozenset(
    f"{folder}{name}"
    for folder in ("", "config/")
    for name in (NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE)
)


class Gate(AppValidator):  # type: ignore[misc]
    """Refuses what this party does not allow."""

    def validate(self, app_folder: str) -> tuple[str, dict[str, Any]]:
        """Return why the job is refused, or an empty text; called by the engine."""
        try:
            self._check(Path(app_folder))
        except SpinneyError as error:
            _LOG.warning("A job was refused: %s", error)
            return error.public, {}
        except Exception as error:  # noqa: BLE001  its text may hold anything, and stays here
            _LOG.exception("A job was refused, since it could not be read.")
            full = full_disk(error)
            return full.public if full else "The job cannot be read.", {}
        return "", {}

    def _check(self, folder: Path) -> None:
        party = load_party(Path(os.environ[PARTY_VARIABLE]))
        asker = _signer(folder)
        job = Agreed.of_bytes(job_of_app(folder, _SIGNATURES))
        _tidy(folder.parent)
        count_job(party.records, party.party.name, party.policy.jobs_per_hour)
        if job.kind != PROPOSE:  # who proposes is answered by yes or no, not by a refused job
            check_policy(party.party.name, party.policy, job, asker)
            Accepted(party.records).require_same_job(job)


def _signer(folder: Path) -> str:
    """Return who signed the job; the engine has checked the signature where there is one."""
    certificate = folder / NVFLARE_SUBMITTER_CRT_FILE
    if not (folder / NVFLARE_SIG_FILE).is_file() or not certificate.is_file():
        raise PolicyError("The job is not signed by the one who submitted it.")
    return name_in(x509.load_pem_x509_certificate(certificate.read_bytes()))


def _tidy(run_folder: Path) -> None:
    """Remove what the engine keeps of jobs long past; the party's own records are elsewhere."""
    past = [path.parent for path in run_folder.parent.glob("*/fl_app.txt")]
    past.sort(key=lambda path: path.stat().st_mtime)
    for path in past[:-_KEPT_JOBS]:
        shutil.rmtree(path, ignore_errors=True)
