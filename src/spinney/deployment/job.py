"""The job as every party sees it, without anything private to one organisation.

It is taken from a job file and travels as JSON. A party accepts its digest.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from spinney.errors import PolicyError, SettingError, StorageError
from spinney.jobs.file import (
    EvaluationConfig,
    JobConfig,
    JobFile,
    SchemaConfig,
    SimulationConfig,
    settings_section,
)
from spinney.jobs.registry import spec_of
from spinney.protocols import explanation as explaining
from spinney.protocols import private_evaluation
from spinney.protocols.private_evaluation.settings import evaluation_settings
from spinney.protocols.release_terms import Hardening
from spinney.protocols.settings import PrivacySettings
from spinney.protocols.spec import Spec, is_blind, is_masked
from spinney.transport.channel import Ask

JOB_LIMIT = 1 << 20
"""The largest job, in bytes."""

RUN_ID = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
TRAIN, PROPOSE, EVALUATE, PREDICT = "train", "propose", "evaluate", "predict"
CHECK = "check"
_LONGEST_NAME = 64
_KINDS = (TRAIN, PROPOSE, EVALUATE, PREDICT, CHECK)
_MODEL = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
_AFTER = re.compile(r"-(evaluation(-[0-9a-f]{8})?|prediction)\Z")  # behind a training's name


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run, and the parties that are in it."""

    run: str
    number: int
    present: tuple[str, ...]

    def __post_init__(self) -> None:
        if not RUN_ID.fullmatch(self.run) or self.number < 1:  # it names folders
            raise PolicyError("The job has no valid run id.")


def words_signed(run: str, job: bytes) -> bytes:
    """Return what a lead signs: a job, for one run only."""
    return b"spinney run\0" + run.encode() + b"\0" + job


class Agreed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as proposed to its parties.

    `kind` is "train", "evaluate", "predict", "check", which compares tables, or "propose", which
    only asks for yes or no; the digest excludes it. `model` is the digest of the model to evaluate,
    or the run to predict with.
    `evaluation` says that an evaluation carries noise, and what it costs. `fold` is a fold of the
    rows and how many there are: a training leaves its rows out, an evaluation uses only them.
    """

    kind: str
    name: str
    protocol: str
    task: str
    parties: tuple[str, ...]
    quorum: int
    settings: dict[str, Any]  # the job file's [settings], without defaults
    schema: SchemaConfig
    held_out: float
    held_out_seed: int
    model: str = ""
    release: Hardening = Hardening()  # the most that an exported model may show
    evaluation: EvaluationConfig | None = None
    fold: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise SettingError(f"A job's kind must be {' or '.join(_KINDS)}; got {self.kind!r}.")
        if len(set(self.parties)) < len(self.parties) or not all(self.parties):
            raise SettingError("Every party of a job needs a unique name.")
        if not 1 <= self.quorum <= len(self.parties):
            raise SettingError(
                f"quorum must be between 1 and the number of parties, {len(self.parties)}; "
                f"got {self.quorum}."
            )
        if (self.kind in (EVALUATE, PREDICT)) != bool(self.model):
            raise SettingError("A job must name a model if, and only if, it evaluates or predicts.")
        if any(not name.isprintable() or len(name) > _LONGEST_NAME for name in self.parties):
            raise SettingError("A party's name must be at most 64 printable characters.")
        if self.model and not _MODEL.fullmatch(self.model):
            raise SettingError("A job must name a model by its digest, or by its run's id.")
        if self.kind in (EVALUATE, PREDICT) and (self.spec.divides == "columns") != (
            self.kind == PREDICT
        ):
            raise SettingError("Models over rows are evaluated, and those over columns predict.")
        self._require_of_its_kind()
        JobConfig(name=self.name, protocol=self.protocol, task=self.task)  # checks them
        # In the order of the protocol's fields, so that the digest does not depend on the writer.
        ordered = msgspec.to_builtins(self.given)
        msgspec.structs.force_setattr(self, "settings", ordered)
        self._require_possible()

    def _require_possible(self) -> None:
        """Raise unless the protocol can do what the job says: a lead may write it by hand."""
        settings = self.protocol_settings()  # refuses invalid settings
        if self.kind in (TRAIN, PROPOSE):
            is_blind(self.spec, self.given, settings, len(self.parties))  # so does this
        if self.quorum < len(self.parties) and settings.privacy is not None:
            raise SettingError(
                "A private job needs all its parties until the end, because a party that leaves "
                "takes its noise with it. Drop quorum from [job]."
            )

    def _require_of_its_kind(self) -> None:
        """Raise unless a job of this kind can be what the job says."""
        if self.evaluation is not None:
            self._require_evaluable()
        if self.kind == CHECK:
            self._require_comparable()
        if self.fold is not None:
            self._require_folds(*self.fold)

    def _require_evaluable(self) -> None:
        """Raise unless the job can evaluate with noise."""
        if self.kind != EVALUATE:
            raise SettingError("Only a job that evaluates may have an [evaluation].")
        if self.quorum < len(self.parties):
            raise SettingError("An evaluation with noise needs all its parties until the end.")
        if self.held_out and self.protocol_settings().privacy is None:
            raise SettingError(
                "This model was trained without noise, on rows that were chosen by their classes: "
                "one record decides whether others were held back, so no epsilon would hold for an "
                "evaluation on these. Drop [evaluation] to evaluate exactly, or train with epsilon."
            )

    def _require_folds(self, fold: int, n_folds: int) -> None:
        """Raise unless the rows can be divided into folds."""
        if self.spec.divides == "columns" or self.held_out or not 0 <= fold < n_folds <= 20:
            raise SettingError(
                "Only the rows of a job over rows are divided, into 20 folds at most, and none are "
                "held out besides."
            )

    def _require_comparable(self) -> None:
        """Raise unless the parties' tables can be compared."""
        if self.spec.divides == "columns":
            raise SettingError(
                "The parties of this job hold different columns, so there is nothing to compare. "
                "'spinney job check' is for jobs over rows."
            )
        if self.protocol_settings().privacy is not None:
            raise SettingError(
                "This job adds noise, and the comparison of tables adds none: its counts are only "
                "rounded. Each party can check its own table: spinney party check."
            )
        if not 2 <= len(self.parties) == self.quorum:
            raise SettingError("A comparison of tables needs two parties, and all of them.")

    def to_bytes(self) -> bytes:
        """Return the job as JSON, without what it does not have: so it always was."""
        said = msgspec.to_builtins(self)
        for name in ("evaluation", "fold"):
            if said[name] is None:
                del said[name]
        data = msgspec.json.encode(said)  # not sorted: the order of columns matters
        if len(data) > JOB_LIMIT:
            raise SettingError(f"A job may have at most {JOB_LIMIT} bytes; got {len(data)}.")
        return data

    @classmethod
    def of_bytes(cls, data: bytes) -> "Agreed":
        """Return the job that `to_bytes` wrote, checked."""
        if len(data) > JOB_LIMIT:
            raise StorageError(f"A job may have at most {JOB_LIMIT} bytes; got {len(data)}.")
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            if isinstance(error.__cause__, SettingError):
                raise error.__cause__ from None
            raise StorageError("A job cannot be read.", local=str(error)) from None

    @property
    def digest(self) -> str:
        """The digest that a party accepts; a proposal and its start have the same."""
        kind = TRAIN if self.kind == PROPOSE else self.kind
        return sha256(msgspec.structs.replace(self, kind=kind).to_bytes()).hexdigest()

    @property
    def trainings(self) -> frozenset[str]:
        """The digests of the trainings that a job may be about that evaluates or predicts.

        It repeats all that the training said, besides its quorum if it has noise: that needs all.
        """
        quorums: Iterable[int] = (self.quorum,)
        if self.evaluation is not None and self.protocol_settings().privacy is None:
            quorums = range(1, len(self.parties) + 1)
        said = msgspec.structs.replace(
            self, kind=TRAIN, name=_AFTER.sub("", self.name), model="", evaluation=None
        )
        return frozenset(msgspec.structs.replace(said, quorum=quorum).digest for quorum in quorums)

    @property
    def spec(self) -> Spec[Any]:
        """The protocol."""
        return spec_of(self.protocol)

    @property
    def given(self) -> Any:
        """The job file's [settings], as the protocol reads them."""
        return settings_section({"settings": self.settings}, self.spec, f"job {self.name!r}")

    @property
    def is_exact(self) -> bool:
        """Whether the job adds no noise; predictions and comparisons never add any."""
        return self.privacy is None

    @property
    def privacy(self) -> PrivacySettings | None:
        """What the job spends, and how it adds noise; None if it adds none."""
        if self.kind in (PREDICT, CHECK) or (self.kind == EVALUATE and self.evaluation is None):
            return None
        settings: PrivacySettings | None = self.settings_asked().privacy
        return settings

    @property
    def summed(self) -> tuple[type[Ask[Any]], ...]:
        """The questions whose replies are summed."""
        if self.evaluation is not None:
            return private_evaluation.SUMMED
        return explaining.SUMMED if self.kind == EVALUATE else self.spec.summed

    @property
    def is_verified(self) -> bool:
        """Whether parties derive the job's questions and check its sums; alone, nobody can."""
        if self.kind == CHECK:
            return True
        is_training = self.kind in (TRAIN, PROPOSE) and len(self.parties) > 1
        return is_training and self.spec.is_verified(self.protocol_settings())

    @property
    def is_blind(self) -> bool:
        """Whether only the parties see the job's sums."""
        if self.kind == CHECK:
            return True
        settings = self.protocol_settings()
        return self.is_verified and is_blind(self.spec, self.given, settings, len(self.parties))

    @property
    def is_masked(self) -> bool:
        """Whether sums are masked: because the job says so, or because parties share the noise."""
        if self.evaluation is not None:
            return self.privacy is not None and self.privacy.in_shares
        if self.kind == CHECK:
            return True
        return is_masked(self.given, self.protocol_settings())

    @property
    def needs_all(self) -> bool:
        """Whether the job waits for every party, and drops none: so all its sums are over all."""
        return self.quorum == len(self.parties)

    def honest_among(self, n_present: int) -> int:
        """Return how many present parties the masks trust; as many may collude as at the start."""
        n_parties = len(self.parties)
        colluders = n_parties - (self.given.honest or (n_parties + 1) // 2)
        return max(1, n_present - colluders)

    def job_file(self, folder: Path) -> JobFile:
        """Return the job as a job file without tables."""
        return JobFile(
            folder=folder,
            job=JobConfig(
                name=self.name, protocol=self.protocol, task=self.task, parties=self.parties
            ),
            settings=self.given,
            schema=self.schema,
            table=None,
            parties=(),
            simulation=SimulationConfig(held_out=self.held_out, random_state=self.held_out_seed),
            release=self.release,
        )

    def protocol_settings(self) -> Any:
        """Return the protocol's settings; all parties compute the same."""
        return self.job_file(Path()).protocol_settings(self.schema.classes)

    def settings_asked(self) -> Any:
        """Return the settings that the job's questions repeat: of a training, or of noise."""
        if self.evaluation is None:
            return self.protocol_settings()
        return evaluation_settings(
            self.name,
            (self.model,),
            "classification" if self.task == "classification" else "regression",
            self.evaluation.epsilon,
            by=self.evaluation.by,
            per_party=self.evaluation.per_party,
            honest=self.given.honest,
            in_shares=self.given.secure_sum is not False and len(self.parties) > 1,
        )


def evaluation_of(job: JobFile, model: str) -> Agreed:
    """Return the job that evaluates the model trained with a job file; with noise if it says so."""
    return evaluation_after(agreement_of(job), model, job.evaluation)


def evaluation_after(trained: Agreed, model: str, evaluation: EvaluationConfig | None) -> Agreed:
    """Return the job that evaluates the model of a training, on its held-out rows or its fold."""
    if trained.spec.leaves == "own models":
        raise SettingError(
            "In this job every party has its own tree, so there is no common model to evaluate. "
            "Each party can evaluate its own: spinney model predict."
        )
    if trained.spec.divides == "columns":
        raise SettingError(
            "A forest over columns has no common table for an evaluation. Its report has its "
            "score on held-out rows."
        )
    name = f"{trained.name}-evaluation"
    if evaluation is None:
        return msgspec.structs.replace(trained, kind=EVALUATE, name=name, model=model)
    # Another price or another model is another job, so that a party can accept both.
    asked = sha256(model.encode() + msgspec.json.encode(evaluation)).hexdigest()
    return msgspec.structs.replace(
        trained,
        kind=EVALUATE,
        name=f"{name}-{asked[:8]}",
        model=model,
        evaluation=evaluation,
        quorum=len(trained.parties),
    )


def fold_of_job(job: JobFile, fold: int, n_folds: int) -> Agreed:
    """Return the training of a job on all rows but those of a fold; each is a job of its own."""
    trained = msgspec.structs.replace(agreement_of(job), held_out=0.0, fold=(fold, n_folds))
    name = f"{trained.name[:40]}-tune-{trained.digest[:12]}"
    return msgspec.structs.replace(trained, name=name)


def check_of(job: JobFile) -> Agreed:
    """Return the job that compares the parties' tables before they train a job file's model."""
    trained = agreement_of(job)
    return msgspec.structs.replace(
        trained, kind=CHECK, name=f"{trained.name}-check", quorum=len(trained.parties)
    )


def prediction_of(job: JobFile, run: str) -> Agreed:
    """Return the job that predicts with a run's forest over columns."""
    trained = agreement_of(job)
    if trained.spec.divides != "columns":
        raise SettingError(
            "A model over rows is a file and predicts without a network: spinney model predict."
        )
    return msgspec.structs.replace(
        trained, kind=PREDICT, name=f"{trained.name}-prediction", model=run
    )


def agreement_of(job: JobFile, kind: str = TRAIN) -> Agreed:
    """Return the part of a job file that all parties see, without its tables and paths."""
    parties = job.job.parties or tuple(party.name for party in job.parties)
    if not parties:
        raise SettingError(
            'The job names no parties. Say in [job] who takes part: parties = ["north", "south"].'
        )
    if job.job.task == "classification" and job.schema.classes is None:
        raise SettingError(
            "The job does not declare its label's classes. Parties cannot read them from each "
            "other's rows. Declare them in [schema]: classes = [...]."
        )
    quorum = len(parties) if job.job.quorum is None else job.job.quorum
    return Agreed(
        kind=kind,
        name=job.job.name,
        protocol=job.job.protocol,
        task=job.job.task,
        parties=parties,
        quorum=quorum,
        settings=msgspec.to_builtins(msgspec.structs.replace(job.settings, n_jobs=None)),
        schema=job.schema,
        held_out=job.simulation.held_out,
        held_out_seed=job.simulation.random_state,
        release=job.release or Hardening(),
    )
