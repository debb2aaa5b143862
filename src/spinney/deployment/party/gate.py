"""The party's gate, which the engine asks before it starts a job's process.

The gate sees the engine job as sent and signed. It refuses anything that is not exactly a Spinney
job, and any job that the party's policy does not allow. It does not open the table.
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
_KEPT_JOBS: Final = 20  # the number of jobs whose engine files stay


_SIGNATURES: Final = frozenset(
    f"{folder}{name}"
    for folder in ("", "config/")
    for name in (NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE)
)


class Gate(AppValidator):  # type: ignore[misc]
    """Refuse jobs that this party does not allow."""

    def validate(self, app_folder: str) -> tuple[str, dict[str, Any]]:
        """Return why the job is refused, or an empty text; the engine calls this."""
        try:
            self._check(Path(app_folder))
        except SpinneyError as error:
            _LOG.warning("A job was refused: %s", error)
            return error.public, {}
        except Exception as error:  # noqa: BLE001  its text may hold data and stays here
            _LOG.exception("A job was refused because it could not be read.")
            full = full_disk(error)
            return full.public if full else "The job cannot be read.", {}
        return "", {}

    def _check(self, folder: Path) -> None:
        party = load_party(Path(os.environ[PARTY_VARIABLE]))
        asker = _signer(folder)
        job = Agreed.of_bytes(job_of_app(folder, _SIGNATURES))
        _tidy(folder.parent)
        count_job(party.records, party.party.name, party.policy.jobs_per_hour)
        if job.kind != PROPOSE:  # a proposal gets yes or no as its answer instead
            check_policy(party.party.name, party.policy, job, asker)
            Accepted(party.records).require_same_job(job)


def _signer(folder: Path) -> str:
    """Return who signed the job; the engine has checked the signature, if there is one."""
    certificate = folder / NVFLARE_SUBMITTER_CRT_FILE
    if not (folder / NVFLARE_SIG_FILE).is_file() or not certificate.is_file():
        raise PolicyError("The job is not signed by the person who submitted it.")
    return name_in(x509.load_pem_x509_certificate(certificate.read_bytes()))


def _tidy(run_folder: Path) -> None:
    """Remove the engine's files of old jobs; the party's own records are elsewhere."""
    past = [path.parent for path in run_folder.parent.glob("*/fl_app.txt")]
    past.sort(key=lambda path: path.stat().st_mtime)
    for path in past[:-_KEPT_JOBS]:
        shutil.rmtree(path, ignore_errors=True)
