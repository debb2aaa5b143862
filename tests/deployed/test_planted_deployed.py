"""No cell that nobody declared leaves a party: not in a message, not in what another side keeps."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    EXAMPLES,
    Sites,
    attempt_of,
    coordinator_in,
    kits,
    status_of,
    write_party,
)
from deployed.test_every_protocol import (  # type: ignore[import-not-found]
    EXACT,
    NOISY,
    job_of,
)
from spinney.deployment.coordinator.process import Run
from spinney.deployment.job import check_of
from spinney.errors import SpinneyError
from spinney.jobs.file import load_job

MARK = b"Zq7secret"
LABEL = "readmitted"
CASES = {**EXACT, **{f"{case} with noise": settings for case, settings in NOISY.items()}}
QUICK = ("horizontal_forest", "private_forest with noise")


def plant(folder: Path, *cells: str) -> None:
    """Give every party a table with marks in its ids and in columns that no job uses.

    One cell of each of these columns, which the job uses, holds what the schema does not name.
    """
    kits(folder)
    for name in CLINICS:
        rows = pd.read_csv(EXAMPLES / f"{name}.csv")
        rows["visit"] = [f"{MARK.decode()} {name} {place}" for place in range(len(rows))]
        rows["note"] = [f"{MARK.decode()} was here {place // 9}" for place in range(len(rows))]
        for place, column in enumerate(cells):
            rows[column] = rows[column].astype(object)
            rows.loc[7 + place, column] = f"{MARK.decode()} in the wrong column"
        write_party(folder, name, table='source = "csv"\npath = "own.csv"\nrow_id = "visit"')
        rows.to_csv(folder / name / "own.csv", index=False)


class Overheard:
    """Parties whose every question and answer is noted."""

    def __init__(self, folder: Path, agreed: Any) -> None:
        self._sites = Sites(folder, agreed)
        self._folder, self._agreed = folder, agreed
        self.heard = b""

    def bytes_to(self, targets: Any, data: bytes) -> dict[str, object]:
        replies: dict[str, object] = self._sites.bytes_to(targets, data)
        self.heard += data + b"".join(map(_packed, replies.values()))
        return replies

    def run(self) -> None:
        coordinator = coordinator_in(self._folder)
        try:
            Run(coordinator, self._agreed, attempt_of(self._agreed), self.bytes_to).conduct()
        finally:
            self._sites.close()

    def marked(self) -> list[str]:
        """Return what holds a mark outside the tables themselves and the parties' own files."""
        kept = [path for path in (self._folder / "runs").rglob("*") if path.is_file()]
        kept += self._folder.glob("*/records/runs/*/model.spinney")
        kept += self._folder.glob("*/records/runs/*/report.*")
        assert len(kept) >= 2
        found = [str(path) for path in kept if MARK in path.read_bytes()]
        return found + ["a message"] * (MARK in self.heard)


def _packed(reply: Any) -> bytes:
    return reply if isinstance(reply, bytes) else repr(reply).encode()


@pytest.mark.parametrize(
    "case",
    [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES],
)
def test_no_protocol_lets_a_mark_leave(tmp_path, case):
    agreed = job_of(tmp_path, case, CASES[case])
    # Where counts have noise, such a cell is changed, or its row left out.
    plant(tmp_path, *(() if agreed.is_exact else ("ward", LABEL)))
    overheard = Overheard(tmp_path, agreed)
    overheard.run()
    assert len(overheard.heard) > 1000
    assert overheard.marked() == []


@pytest.mark.parametrize("column", ["ward", LABEL])
def test_an_exact_job_is_refused_by_such_a_cell_without_its_words(tmp_path, column):
    plant(tmp_path, column)
    overheard = Overheard(tmp_path, job_of(tmp_path, "horizontal_forest", {}))
    with pytest.raises(SpinneyError, match=column) as error:
        overheard.run()
    assert MARK.decode() not in str(error.value)
    assert column in status_of(tmp_path).message
    assert overheard.marked() == []


def test_a_comparison_of_tables_tells_no_mark(tmp_path):
    plant(tmp_path, "ward", LABEL)
    job_of(tmp_path, "horizontal_forest", {})
    overheard = Overheard(tmp_path, check_of(load_job(tmp_path / "job.toml", deployed=True)))
    overheard.run()
    found = status_of(tmp_path).fit
    assert found is not None
    assert found.parties == CLINICS
    assert overheard.marked() == []
