"""`spinney audit`: find the model and the job, try every attack that they allow, write it down."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np

from spinney.audit.attributes import infer_attribute
from spinney.audit.epsilon import claim_of, find_epsilon, runs_needed
from spinney.audit.groups import groups_of
from spinney.audit.halves import LEAST_ROWS, Halves, train_halves
from spinney.audit.membership import infer_membership
from spinney.audit.reconstruction import rebuild_from_trees
from spinney.audit.rehearsal import LocalTable, Rehearsal, rehearsal_of
from spinney.audit.sums import listen, rebuild_from_sums, views_of
from spinney.audit.told import has_exact_counts
from spinney.errors import SettingError, StorageError
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import Hardening
from spinney.report.audit_limits import AuditLimits, claims_refuted
from spinney.report.audited import AS_TRAINED, HARDENED, Audit, EpsilonFound, Rebuilt, Released
from spinney.report.door import release
from spinney.report.file_names import CANDIDATE, MODEL, REPORT, file_in
from spinney.report.report import load_report
from spinney.report.words import some
from spinney.simulation.scores import scores_of
from spinney.typing import Progress, silent

_LEAST_GROUP = 5
_JOURNAL = "rounds"
_MOST_SIDES = 10**8  # columns times nodes


@dataclass(frozen=True)
class Effort:
    """How much an audit may train: models on halves, and runs for the bound on epsilon."""

    n_models: int = 16
    n_runs: int = 200

    def __post_init__(self) -> None:
        if self.n_models < 4 or self.n_models % 2:
            raise SettingError(f"--models must be an even number from 4 on; got {self.n_models}.")
        if self.n_runs < 20:
            raise SettingError(f"--runs must be at least 20; got {self.n_runs}.")


@dataclass(frozen=True)
class Subject:
    """What is audited: a model, how it would be hardened, and the job that grows it, if known."""

    name: str
    model: ForestModel
    release: Hardening
    rehearsal: Rehearsal | None
    is_private: bool
    notes: tuple[str, ...] = ()
    sums: tuple[Rebuilt, ...] = ()
    claim: tuple[float, float] | None = None
    leaving: str = HARDENED

    @property
    def is_noisy(self) -> bool:
        """Whether the model's counts carry noise, by its own word and by that of its job."""
        by_job = self.rehearsal is None or self.rehearsal.noises_counts
        return self.model.noise is not None and by_job

    @property
    def is_hardened(self) -> bool:
        """Whether the model has left before; of a job that is trained here, it has not."""
        unknown = self.rehearsal is None and not self.is_private
        rounded = unknown and not has_exact_counts(self.model)
        return self.model.released is not None or (rounded and not self.is_noisy)


def audit(
    target: Path,
    *,
    job: Path | None = None,
    table: LocalTable | None = None,
    limits: AuditLimits | None = None,
    exact_counts: bool = False,
    effort: Effort | None = None,
    progress: Progress = silent,
) -> Audit:
    """Try all attacks on a run's folder, a model file, or a job file.

    Parameters
    ----------
    target
        A run's folder, a model file, or a job file (TOML) that is trained here first.
    job
        For a folder or a model: the job file that grew it.
    table
        Rows to audit with, instead of the tables that the job file names. For a folder or a model
        they are taken as some of the rows that grew it.
    limits
        What the party's policy lets an audit find; a model file is compared with them as it is,
        the model of a run or a job as it will be hardened.
    exact_counts
        The rule of that name in the party's policy.
    effort
        How much to train.
    progress
        Receives the progress.
    """
    progress("reading", 0, 0)
    if target.suffix == ".toml":
        if job is not None:
            raise SettingError("The target is a job file already. Leave --job out.")
        subject = _of_job(target, table)
    else:
        subject = _of_model(target, job, table)
    found = audit_subject(subject, limits, effort or Effort(), progress)
    broken, given = claims_refuted(found), {}
    if limits is not None:
        broken += limits.broken_by(found, found.judged, exact_counts=exact_counts)
        given = limits.that_are_set
    words = tuple(one.words for one in broken)
    return msgspec.structs.replace(found, broken=words, limits=given)


def _of_job(path: Path, table: LocalTable | None) -> Subject:
    rehearsal, job = rehearsal_of(path, table)
    training, heard = listen(rehearsal)
    _require_size(training.model)
    sums = rebuild_from_sums(training.model, rehearsal, heard, views=views_of(rehearsal))
    return Subject(
        job.job.name,
        rehearsal.as_run(training.model),
        job.release or Hardening(),
        rehearsal,
        rehearsal.is_private,
        sums=sums,
        claim=claim_of(training),
    )


def _of_model(target: Path, job: Path | None, table: LocalTable | None) -> Subject:
    file = file_in(target, MODEL)
    if target.is_dir() and not file.is_file():
        file = target / CANDIDATE
    if target.is_dir() and not file.is_file():
        raise StorageError(
            f"The folder {str(target)!r} holds no {MODEL}: it is no run, or one that has not "
            "finished. Give the folder of a finished run, a model file, or a job file."
        )
    model = ForestModel.load(file)
    report = load_report(target) if (target / REPORT).is_file() else None
    subject = Subject(
        str(target),
        model,
        (report.release if report is not None else None) or Hardening(),
        None,
        is_private=model.noise is not None or (report is not None and report.is_private),
        leaving=HARDENED if target.is_dir() else AS_TRAINED,  # a file leaves as it is
    )
    if job is None:
        if table is not None:
            raise SettingError(
                "A table alone does not say how the model was grown. Give its job file too: "
                "--job FILE."
            )
        return replace(subject, notes=_without_job(target))
    if table is not None:
        return _with_own_rows(subject, job, table)
    return _grown_again(subject, job, is_agreed=report is not None and report.release is not None)


def _with_own_rows(subject: Subject, job: Path, table: LocalTable) -> Subject:
    """Return the subject with some of the rows that grew it: a party's own."""
    _require_size(subject.model)
    rehearsal, _ = rehearsal_of(job, table, keep_all=True)
    own = next(iter(rehearsal.tables.values())).schema
    if own.names != subject.model.schema.names or own.label.name != subject.model.schema.label.name:
        raise _other_columns()
    claim = claim_of(rehearsal.train()) if rehearsal.is_private else None
    return replace(
        subject,
        rehearsal=rehearsal,
        is_private=rehearsal.is_private,
        claim=claim,
        notes=(_OWN_ROWS,),
    )


def _grown_again(subject: Subject, job: Path, *, is_agreed: bool) -> Subject:
    """Return the subject with the job that grew it, and all its rows."""
    again = _of_job(job, None)
    if is_agreed:
        again = replace(again, release=subject.release)
    _require_same(subject.model, again)
    leaving = subject.leaving
    if again.is_private:  # noise never grows the same model twice
        again = replace(again, model=subject.model)
    elif subject.model.to_bytes() != again.model.to_bytes():
        leaving = HARDENED
    return replace(again, name=subject.name, leaving=leaving)


_OWN_ROWS = (
    "The rows are a party's own: what is isolated is counted among them, with those that the run "
    "held back. Membership and attributes are of models trained on these rows alone. The sums were "
    "not tried: audit the job itself."
)
_NO_JOB = (
    "Membership, attributes, the sums and epsilon were not tried: they need the job that grew the "
    "model. Give its job file: --job FILE."
)
_NO_JOURNAL = (
    "The folder has no journal of its rounds (a finished run keeps none), so the sums can be had "
    "only by growing the job again."
)


def _without_job(target: Path) -> tuple[str, ...]:
    """Say what cannot be tried without a job."""
    has_none = target.is_dir() and not (target / _JOURNAL).is_dir()
    return (_NO_JOB, _NO_JOURNAL) if has_none else (_NO_JOB,)


def _require_same(model: ForestModel, subject: Subject) -> None:
    """Raise unless a job grows the given model, hardened or not."""
    known = (subject.model, hardened(subject.model, subject.release))
    schemas = [one.schema for one in known]  # one that left names no rare value
    if model.schema not in schemas or model.protocol != subject.model.protocol:
        raise _other_columns()
    if not subject.is_private and model.to_bytes() not in [one.to_bytes() for one in known]:
        raise SettingError(
            "The job file, with these rows, grows another model than the one that is audited. "
            "Give the job and the rows that grew it; a party's own rows, with --table or --party."
        )


def _other_columns() -> SettingError:
    return SettingError(
        "The job file grows a model of other columns, another label or another protocol than the "
        "model that is audited. Give the job that grew it."
    )


def audit_subject(
    subject: Subject, limits: AuditLimits | None, effort: Effort, progress: Progress
) -> Audit:
    """Try every attack that a subject allows."""
    rehearsal = subject.rehearsal
    halves = None
    if rehearsal is not None:
        halves = train_halves(rehearsal, effort.n_models, progress)
    progress("attacking", 0, 0)
    least = _LEAST_GROUP if limits is None or limits.least_group is None else limits.least_group
    models = tuple(_released(subject, name, how, halves, least) for name, how in _leaving(subject))
    found = _epsilon(subject, effort, progress)
    notes = list(subject.notes)
    if subject.is_noisy and limits is not None and limits.least_group is not None:
        notes.append(
            f"least_group = {limits.least_group} was not compared: counts carry noise, and a small "
            "one says little about rows."
        )
    if rehearsal is not None:
        notes.extend(_not_tried(subject, rehearsal, halves, found))
    return Audit(
        subject.name,
        subject.model.protocol,
        0 if rehearsal is None else rehearsal.rows.n,
        models,
        subject.sums,
        found,
        tuple(notes),
        subject.leaving,
    )


def _require_size(model: ForestModel) -> None:
    """Raise if the boxes of a forest's nodes would not fit into memory."""
    n_nodes, n_columns = model.forest.n_nodes, len(model.schema.columns)
    if n_nodes * n_columns > _MOST_SIDES:
        raise SettingError(
            f"The forest has {n_nodes:,} nodes over {some(n_columns, 'column', 'columns')}, more "
            "than an audit holds in memory. Audit the job with a sample of its rows: --table FILE."
        )


def _leaving(subject: Subject) -> Iterator[tuple[str, Hardening | None]]:
    """Return each form in which a model could leave; one that is hardened is not hardened again."""
    if subject.is_hardened:
        yield HARDENED, None
        return
    yield AS_TRAINED, None
    yield HARDENED, subject.release


def hardened(model: ForestModel, how: Hardening) -> ForestModel:
    """Return a model as it leaves on some terms."""
    return release(model, how)[0]


def _not_tried(
    subject: Subject, rehearsal: Rehearsal, halves: Halves | None, found: EpsilonFound | None
) -> Iterator[str]:
    """Say what could not be tried, and what it would need."""
    if halves is None:
        yield (
            f"Membership and attributes were not tried: {rehearsal.rows.n} rows are too few to "
            f"train on halves of them; {LEAST_ROWS} are needed."
        )
    if subject.sums and not rehearsal.is_private and not _has_histograms(rehearsal):
        yield (
            "The cells of the sums are read in horizontal forests only; in "
            f"{subject.model.protocol} the view of the sums has the counts of its nodes."
        )
    if rehearsal.is_private and found is None:
        yield "The job claims no epsilon for one record against a reader: none was tried."
    if found is not None and found.most < found.claim:
        yield (
            f"{found.n_runs} runs can show an epsilon of {found.most:.2f} at most, below the "
            f"claim of {found.claim:g}; {runs_needed(found.claim):,} could disprove it."
        )


def _has_histograms(rehearsal: Rehearsal) -> bool:
    return rehearsal.running.protocol.name == "horizontal_forest"


def _epsilon(subject: Subject, effort: Effort, progress: Progress) -> EpsilonFound | None:
    if subject.rehearsal is None or not subject.is_private or subject.claim is None:
        return None
    return find_epsilon(subject.rehearsal, subject.claim, effort.n_runs, progress)


def _released(
    subject: Subject, name: str, how: Hardening | None, halves: Halves | None, least: int
) -> Released:
    """Return what a reader gets out of the model, hardened or not."""
    model, counted = subject.model, None
    if how is not None:
        model = hardened(subject.model, how)
        counted = hardened(subject.model, msgspec.structs.replace(how, exact_counts=True))
    membership, attribute, auc = None, None, None
    rehearsal = subject.rehearsal
    if rehearsal is not None and halves is not None:
        models = halves.models
        if name == HARDENED:
            models = tuple(hardened(one, subject.release) for one in models)
        membership = infer_membership(models, halves.saw, rehearsal.rows)
        attribute = infer_attribute(models, halves, rehearsal.rows)
    if rehearsal is not None:
        auc = _quality(model, rehearsal)
    return Released(
        name,
        sha256(model.to_bytes()).hexdigest(),
        groups_of(model, least, counted, is_noisy=subject.is_noisy),
        rebuild_from_trees(model, rehearsal, is_noisy=subject.is_private),
        membership,
        attribute,
        auc,
    )


def _quality(model: ForestModel, rehearsal: Rehearsal) -> float | None:
    """Return the AUC, or R2, on the rows that were held back; None: there are none."""
    rows = rehearsal.others
    if not rows.n:
        return None
    (told,) = model.predict_batches(iter([rows.values]))
    is_class = model.schema.label.kind == "class"
    scores = scores_of(rows.target, told, is_class=is_class)
    found = scores.get("auc" if is_class else "r2")
    return None if found is None or not np.isfinite(found) else float(found)
