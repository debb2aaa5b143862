"""`spinney audit`: attack a model, a run or a job; the exit code says whether limits are kept."""

from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from spinney.audit.rehearsal import LocalTable, names_tables
from spinney.audit.run import Effort, audit
from spinney.deployment.party.config import PartyFile, load_party
from spinney.errors import PolicyError
from spinney.files import write_whole
from spinney.protocols.model import ForestModel
from spinney.report.audit_limits import AuditLimits
from spinney.report.audit_text import (
    SUM_HEADINGS,
    Line,
    epsilon_line,
    headings,
    model_lines,
    sum_lines,
)
from spinney.report.audited import Audit, audit_in
from spinney.report.file_names import AUDIT, MODEL, PAGE, REPORT
from spinney.report.report import load_report
from spinney.report.words import as_json as in_json
from spinney.report.words import some
from spinney.simulation.progress import Stages

_STAYS = (
    "This run was audited before, against limits that were not set now, and did not pass. That "
    "audit stays in the run's folder; audit with --party to judge it anew, or name another file "
    "with --out."
)

__all__ = ["Effort", "audit_target", "require_kept", "show"]


def audit_target(
    target: Path,
    job: Path | None,
    table: Path | None,
    *,
    party: Path | None,
    effort: Effort,
    out: Path | None,
    stages: Stages,
) -> tuple[Audit, Path | None]:
    """Audit, and write down what was found; return it and the file, if one was written."""
    own = None if party is None else load_party(party)
    policy = None if own is None else own.policy
    step = stages.begin("auditing")
    found = audit(
        target,
        job=job,
        table=_table_of(target, job, table, own),
        limits=None if policy is None else policy.audit or AuditLimits(),
        exact_counts=policy is not None and policy.exact_counts,
        effort=effort,
        progress=step,
    )
    file = out or (target / AUDIT if target.is_dir() else None)
    if out is None and target.is_dir() and _failed_before(target, found):
        notes = (*found.notes, _STAYS)
        return msgspec.structs.replace(found, notes=notes), None
    if file is not None:
        write_whole(file, in_json(found).encode())
    if target.is_dir() and out is None and (target / REPORT).is_file():
        _write_page(target, found)
    return found, file


def _failed_before(folder: Path, found: Audit) -> bool:
    """Return whether a run's audit failed a limit that this one was not compared with."""
    before = audit_in(folder)
    if before is None or not before.broken or before.judged.digest != found.judged.digest:
        return False
    return bool(set(before.limits) - set(found.limits)) or not found.limits


def _table_of(
    target: Path, job: Path | None, table: Path | None, party: PartyFile | None
) -> LocalTable | None:
    """Return the rows to audit with: the given file, or a party's own if the job names none."""
    if table is not None:
        return LocalTable.of_file(table)
    file = target if target.suffix == ".toml" else job
    if party is None or file is None or names_tables(file):
        return None
    return LocalTable(party.folder, party.table)


def _write_page(folder: Path, found: Audit) -> None:
    """Write a run's page again, with a section about the audit."""
    report = load_report(folder)
    report.to_html(folder / PAGE, ForestModel.load(folder / MODEL), found)


def require_kept(found: Audit) -> None:
    """Raise `PolicyError` if a limit is not kept; its exit code stops a script."""
    if found.broken:
        raise PolicyError(f"The audit does not pass: {'; '.join(found.broken)}.")


def show(found: Audit, file: Path | None, *, as_json: bool) -> None:
    """Print an audit, as one JSON document or as tables."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if as_json:
        console.out(in_json(found), highlight=False)
        return
    rows = some(found.n_rows, "training row", "training rows") if found.n_rows else "no rows here"
    console.print(f"{found.target}: {found.protocol}, {rows}\n")
    console.print(_table(headings(found), model_lines(found)))
    if found.sums:
        console.print()
        console.print(_table(SUM_HEADINGS, sum_lines(found)))
    if said := epsilon_line(found):
        console.print(f"\n{said}")
    for note in found.notes:
        console.print(f"\n{note}")
    if not found.limits:
        console.print("\nNo limit was set ([policy.audit]), so nothing was compared.")
    if file is not None:
        console.print(f"\nAudit   {file}")


def _table(names: Line, lines: list[Line]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table
