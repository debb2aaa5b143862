"""Evaluation as a job: the scores of a finished model at the parties, and feature importances.

The parties answer one question, which follows from the model. Each party checks the question and
the model. Without noise, a policy with an epsilon refuses the job. With [evaluation] in the job
file, the answers are histograms with noise, which each party's ledger pays for, and there are no
importances.
"""

from hashlib import sha256
from pathlib import Path
from typing import Any

from spinney.deployment.coordinator.runs import RunFolder
from spinney.errors import PolicyError, SettingError
from spinney.protocols import explanation as explaining
from spinney.protocols import private_evaluation
from spinney.protocols.explanation import ExplainAsk, Explained, question_of
from spinney.protocols.model import ForestModel
from spinney.protocols.private_evaluation import PrivateQuality, Settings
from spinney.report.file_names import MODEL
from spinney.report.report import Report
from spinney.tables.table import Table
from spinney.transport import codec
from spinney.transport.channel import Ask, Channel


class EvaluatingParty:
    """A party that evaluates one named model on its own rows."""

    def __init__(self, table: Table, model: str, *, n_jobs: int | None = None) -> None:
        self._party = explaining.Party(table, n_jobs=n_jobs)
        self._model = model

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer the question about the model, and refuse any other."""
        if isinstance(ask, ExplainAsk):
            self._require_agreed(ask)
        return self._party.answer(ask)

    def _require_agreed(self, ask: ExplainAsk) -> None:
        if digest_of(ask.model.tobytes()) != self._model:
            raise _outside("model is not the agreed one")
        if codec.encode(ask) != codec.encode(question_of(ask.forest_model)):
            raise _outside("question does not follow from the model")


def digest_of(model: bytes) -> str:
    """Return the digest by which a job names a model."""
    return sha256(model).hexdigest()


def find_run(runs: Path, model: str) -> RunFolder:
    """Return the coordinator's run that made a model."""
    for folder in sorted(path for path in runs.iterdir() if path.is_dir()):
        run = RunFolder(runs, folder.name)
        status = run.status()
        if status is not None and status.model == model and (folder / MODEL).is_file():
            return run
    raise SettingError("The coordinator has no finished run with this model. Train it first.")


def evaluate_model(
    channel: Channel, model: ForestModel, report: Report, rows: str
) -> tuple[Report, Explained]:
    """Ask the parties, and return the run's report with their answers."""
    found = explaining.explain(channel, question_of(model))
    if found is None:
        raise SettingError("No party has rows to evaluate the model on. Set held_out lower.")
    return report.asked(channel.rounds).explained(model, found, rows), found


def evaluate_with_noise(
    channel: Channel, model: ForestModel, report: Report, rows: str, settings: Settings
) -> tuple[Report, PrivateQuality]:
    """Ask the parties for noisy histograms, and return the run's report with what follows."""
    quality, claims = private_evaluation.evaluate(channel, (model,), settings, rows)
    return report.evaluated(quality, claims, channel.rounds), quality


def _outside(what: str) -> PolicyError:
    return PolicyError(
        f"The question is outside the job that this party accepted: its {what}. Nothing was "
        "released."
    )
