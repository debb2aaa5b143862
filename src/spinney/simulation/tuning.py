"""`spinney tune` over simulated parties."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from spinney.jobs.file import JobFile, load_job
from spinney.jobs.rows import deal_out
from spinney.jobs.tables import tables_of
from spinney.jobs.tuning import (
    Candidate,
    Cost,
    Grid,
    Tuned,
    candidates_of,
    search,
    search_within,
    share_of,
)
from spinney.privacy.ledger import Ledger
from spinney.protocols.private_evaluation.settings import fold_of
from spinney.protocols.spec import is_masked
from spinney.simulation.comparison import Running, connect
from spinney.simulation.scores import predict_table, scores_of
from spinney.tables.table import MemoryTable
from spinney.trees.threads import thread_count
from spinney.typing import silent


class SimulatedWork:
    """The parties' tables of a job, and how to train and score on some of their rows."""

    def __init__(self, job: JobFile, tables: Mapping[str, MemoryTable], n_folds: int) -> None:
        self._job = job
        self._tables = tables
        self.folds = {name: _folds(table, n_folds) for name, table in tables.items()}
        self._schema = next(iter(tables.values())).schema
        self.cost = Cost()
        self._metric = "auc" if self._schema.label.kind == "class" else "r2"

    @property
    def score(self) -> str:
        """The name of the score."""
        return self._metric.upper()

    @property
    def note(self) -> str:
        """Scores of a simulation carry no noise."""
        if self._job.protocol_settings().privacy is None:
            return ""
        return "These scores carry no noise, because nothing left; those of real parties would."

    def trained(self, settings: Candidate, fold: int) -> Any:
        """Train the job with other settings on the rows of all folds but one."""
        given = msgspec.structs.replace(self._job.settings, **settings)
        job = msgspec.structs.replace(self._job, settings=given)
        asked = job.protocol_settings(self._schema.label.classes)
        chosen = {
            name: table.select(np.flatnonzero(self.folds[name] != fold))
            for name, table in self._tables.items()
        }
        chosen = {name: part for name, part in chosen.items() if part.n_rows}
        ledgers = {} if asked.privacy is None else {one: Ledger.in_memory(one) for one in chosen}
        running = Running(job.spec, given.n_jobs, secure_sum=is_masked(given, asked))
        channel, _ = connect(chosen, asked, running, ledgers)
        found = job.spec.train(channel, asked, n_jobs=given.n_jobs, progress=silent)
        sent: dict[str, int] = {}
        for done in found.rounds:
            for party, n_bytes in done.bytes_up.items():
                sent[party] = sent.get(party, 0) + n_bytes
        self.cost.add(sent)
        return found.model

    def scored(self, trained: Any, fold: int) -> float:
        """Score a model on the rows of a fold, of all parties together."""
        n_threads = thread_count(self._job.settings.n_jobs)
        parts = [
            table.select(np.flatnonzero(self.folds[name] == fold))
            for name, table in self._tables.items()
        ]
        pairs = [predict_table(trained, one, n_threads=n_threads) for one in parts if one.n_rows]
        truth = np.concatenate([one for one, _ in pairs])
        said = np.concatenate([one for _, one in pairs])
        is_class = self._schema.label.kind == "class"
        return scores_of(truth, said, is_class=is_class).get(self._metric, 0.0)


def _folds(table: MemoryTable, n_folds: int) -> Any:
    """Return each row's fold, by its key."""
    return np.concatenate([fold_of(batch, n_folds, 0) for batch in table.batches()])


def tune(path: Path, grid: Grid | None, n_folds: int, epsilon: float | None = None) -> Tuned:
    """Search the settings of a job over rows; nothing is written."""
    job = load_job(path)
    candidates = candidates_of(job, grid, n_folds, epsilon)
    if epsilon is None:
        return search(job, SimulatedWork(job, tables_to_tune(job), n_folds), candidates, n_folds)
    share = share_of(epsilon, candidates)
    job = msgspec.structs.replace(
        job, settings=msgspec.structs.replace(job.settings, epsilon=share)
    )
    work = SimulatedWork(job, tables_to_tune(job), n_folds)
    return search_within(job, work, candidates, n_folds, epsilon)


def tables_to_tune(job: JobFile) -> dict[str, MemoryTable]:
    """Return the parties' tables."""
    tables, _ = tables_of(job, needs_ranges=job.spec.needs_ranges(job.protocol_settings()))
    if job.table is None:
        return tables
    first = next(iter(tables.values()))
    return deal_out(first, job.simulation, job.facts().parties, is_private=False).training
