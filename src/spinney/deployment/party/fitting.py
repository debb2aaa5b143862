"""`spinney party fit`: fit a finished run's model to this party's rows, without telling anyone.

The rows are ones that no tree was trained on: those that the job held back or, if it held none
back, those that a tree's bootstrap left out. They are read and the fit is kept here; nothing is
asked of anyone, and no budget is spent.
"""

from pathlib import Path

import msgspec
import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

from spinney.deployment.evaluation import digest_of
from spinney.deployment.job import Agreed, agreement_of, evaluation_after
from spinney.deployment.party.admission import Accepted
from spinney.deployment.party.config import PartyFile, load_party
from spinney.deployment.party.guard import RunRecord
from spinney.deployment.party.tables import fingerprint, open_table
from spinney.errors import SettingError
from spinney.files import write_whole
from spinney.jobs.file import load_job
from spinney.jobs.tables import cluster_of
from spinney.protocols.home import METRICS, Metric, StoredFit, fit_at_home, shares_elsewhere
from spinney.protocols.model import ForestModel
from spinney.protocols.rows.quality import out_of_bag
from spinney.report.file_names import MODEL
from spinney.report.words import as_json
from spinney.tables.holding import Holding
from spinney.tables.schema import Category
from spinney.tables.table import Table
from spinney.trees.threads import thread_count
from spinney.typing import Floats, Integers

FIT = "home.json"
_SCORES = {
    "accuracy": accuracy_score,
    "balanced_accuracy": balanced_accuracy_score,
    "f1": f1_score,
}


class FittedHere(msgspec.Struct, frozen=True):
    """What came of a fit; it is told to this party alone."""

    party: str
    run: str
    rows: str
    n_rows: int
    metric: str
    common: str  # the most common class of these rows
    majority: float  # its share
    joint: float  # the metric with the joint model
    fitted: float  # with the fitted one, on rows that it was not fitted to
    path: str

    def __str__(self) -> str:
        word = self.metric.replace("_", " ").replace("f1", "F1")
        return (
            f"{self.party}: run {self.run} is fitted to {self.n_rows} {self.rows} rows. Nothing "
            f"left this machine.\nmost common class   {self.common!r}, {self.majority:.3f} of "
            f"these rows\n{word:<20}{self.joint:.3f} as the parties trained it, {self.fitted:.3f} "
            f"fitted here\nFit                 {self.path}"
        )


def fit_run(path: Path, run: str, job: Path, metric: str, out: Path | None = None) -> FittedHere:
    """Fit a run's model to the rows of a party's file; write the fit.

    Parameters
    ----------
    path
        The party's file.
    run
        The run's id, or how it begins.
    job
        The job file of the training.
    metric
        What decisions are for.
    out
        The file to write; None: home.json in the run's folder.
    """
    party = load_party(path)
    folder = _folder_of(party.records / "runs", run)
    trained = agreement_of(load_job(job, deployed=True))
    _require_fittable(party, trained, folder, metric)
    model = ForestModel.load(folder / MODEL)
    rows, shares, truth = _unseen(party, trained, model)
    known = ~np.isnan(shares).any(axis=1)
    shares, truth = shares[known], truth[known]
    if not truth.size:
        raise SettingError(
            f"This party has no {rows} rows, so there is nothing to fit the model to."
        )
    of: Metric = metric  # type: ignore[assignment]  # checked
    target = out or folder / FIT
    fit = fit_at_home(shares, truth, of)
    stored = StoredFit(
        party=party.party.name,
        model=digest_of((folder / MODEL).read_bytes()),
        metric=metric,
        rows=rows,
        n_rows=truth.size,
        slope=fit.slope,
        offset=tuple(fit.offset.tolist()),
        weight=tuple(fit.weight.tolist()),
    )
    write_whole(target, as_json(stored).encode())
    names = model.schema.label.classes or ()
    return _told(stored, names, shares, truth, run=folder.name, path=str(target))


def _told(
    stored: StoredFit,
    names: tuple[Category, ...],
    shares: Floats,
    truth: Integers,
    *,
    run: str,
    path: str,
) -> FittedHere:
    """Return what the party's rows say of the joint model, and of the fitted one."""
    metric: Metric = stored.metric  # type: ignore[assignment]  # checked
    score, counts = _SCORES[metric], np.bincount(truth)
    return FittedHere(
        stored.party,
        run,
        stored.rows,
        stored.n_rows,
        metric,
        str(names[counts.argmax()]),
        float(counts.max() / truth.size),
        float(score(truth, shares.argmax(axis=1))),
        float(score(truth, shares_elsewhere(shares, truth, metric).argmax(axis=1))),
        path,
    )


def _folder_of(runs: Path, run: str) -> Path:
    """Return the folder of a run whose model this party has."""
    kept = sorted(path.parent for path in runs.glob(f"*/{MODEL}"))
    found = [one for one in kept if one.name == run] or [
        one for one in kept if one.name.startswith(run)
    ]
    if len(found) != 1:
        names = ", ".join(one.name for one in kept) or "none"
        raise SettingError(
            f"{run!r} is {'more than one' if found else 'no'} run that left a model here. There "
            f"are: {names}."
        )
    return found[0]


def _require_fittable(party: PartyFile, trained: Agreed, folder: Path, metric: str) -> None:
    """Raise unless the run is of this job, and its model one that a party can fit."""
    if metric not in METRICS:
        raise SettingError(
            f"--metric must be 'accuracy', 'balanced_accuracy' or 'f1'; got {metric!r}."
        )
    if trained.task != "classification":
        raise SettingError("The job predicts numbers; only class probabilities are fitted at home.")
    if trained.spec.divides == "columns":
        raise SettingError(
            "A model over columns predicts with all its parties, so none of them fits it alone."
        )
    if trained.spec.leaves == "own models":
        raise SettingError("In this job every party has its own tree, fitted to its own rows.")
    if cluster_of(party.table, party.folder) is not None:
        raise SettingError(
            "The rows of this party lie on a cluster, which counts rows and predicts none. Fit the "
            "model in Python, to rows that you hold: load_model(run).for_party(name, X, y)."
        )
    if RunRecord(folder).get("job") != trained.digest:
        raise SettingError(
            f"Run {folder.name!r} was trained by another job file. Give the job file of the "
            "training, as it was."
        )


def _unseen(party: PartyFile, trained: Agreed, model: ForestModel) -> tuple[str, Floats, Integers]:
    """Return which rows no tree was trained on, the model's shares for them, and their classes."""
    n_threads = thread_count(party.party.n_jobs)
    table = _opened(party, trained)
    Accepted(party.records).require_same_table(trained, fingerprint(table))
    if trained.held_out:
        held = _opened(party, evaluation_after(trained, digest_of(model.to_bytes()), None))
        shares = [
            found
            for batch in held.batches()
            for found in model.predict_batches(iter([batch.values]), n_threads=n_threads)
        ]
        return "held-out", *_joined(shares, held, model)
    settings = trained.protocol_settings()
    if not trained.spec.leaves_rows_out(settings):
        raise SettingError(
            "Every row of this party was trained on: the job held none back, and without a "
            "bootstrap, or with noise, none is out of bag. Train with held_out in [simulation]."
        )
    shares = [
        out_of_bag(model, batch.values, batch.keys, settings.seed, n_threads=n_threads)
        for batch in table.batches()
    ]
    return "out-of-bag", *_joined(shares, table, model)


def _opened(party: PartyFile, agreed: Agreed) -> Table:
    table = open_table(party, agreed)
    assert not isinstance(table, Holding)
    return table


def _joined(shares: list[Floats], table: Table, model: ForestModel) -> tuple[Floats, Integers]:
    truth = [np.zeros(0, np.int64), *(batch.target.astype(np.int64) for batch in table.batches())]
    return np.concatenate([np.zeros((0, model.n_outputs)), *shares]), np.concatenate(truth)
