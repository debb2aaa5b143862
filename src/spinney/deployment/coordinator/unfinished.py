"""The report of a run that stopped early: the completed rounds and their disclosures."""

import msgspec

from spinney.deployment.coordinator.runs import ABORTED, FAILED, PAUSED, RunFolder, Status
from spinney.deployment.job import TRAIN, Agreed
from spinney.errors import SpinneyError
from spinney.jobs.careful import weaker_than_default
from spinney.protocols.training import Unfinished
from spinney.report.report import Report
from spinney.report.run_folder import write_run
from spinney.transport.journal import Journal


def write_unfinished(folder: RunFolder, status: Status) -> None:
    """Write the report of a run that was aborted, failed or paused, if it had begun."""
    if status.state not in (ABORTED, FAILED, PAUSED) or status.kind != TRAIN:
        return
    try:
        agreed = Agreed.of_bytes(folder.job.read_bytes())
        rounds = Journal(folder.rounds).rounds()
        settings = agreed.spec.described(agreed.protocol_settings())
        log = Unfinished(agreed.protocol, agreed.parties, rounds, settings)
        ended = status.message or f"The run was {status.state}."
        write_run(folder.folder, None, add_run_facts(Report.of(log, ended=ended), agreed, status))
    except (OSError, SpinneyError):
        return  # it never began, or the disk is full: its status says why it ended


def add_run_facts(report: Report, agreed: Agreed, status: Status) -> Report:
    """Return a report with the facts that only a deployed run has."""
    dropped = tuple(name for name in agreed.parties if name not in status.present)
    release = report.release or agreed.release
    settings = agreed.protocol_settings()
    n_parties = len(agreed.parties) - len(dropped)
    return msgspec.structs.replace(
        report,
        attempts=status.attempt,
        dropped=dropped,
        release=release,
        weaker=weaker_than_default(agreed.spec, agreed.given, settings, n_parties, release),
    )
