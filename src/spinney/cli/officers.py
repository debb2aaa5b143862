"""`spinney report --for-officer`: the document that a privacy officer signs."""

from pathlib import Path

from spinney.errors import SettingError
from spinney.files import write_whole
from spinney.report.officer.document import officer_document

_NAME = "officer.html"


def write_document(run: Path, ledgers: tuple[Path, ...], out: Path | None) -> Path:
    """Write the document about a run; return where it is."""
    if not run.is_dir():
        raise SettingError(
            f"{str(run)!r} is not a run's folder. The document needs the run's report beside its "
            "model; 'spinney runs' lists runs."
        )
    target = run / _NAME if out is None else out
    write_whole(target, officer_document(run, ledgers).encode())
    return target
