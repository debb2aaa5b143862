"""Train the joint forest, each party's own and, if rows may be pooled, the pooled forest.

All forests are scored on each party's held-out rows. The joint forest must equal the pooled one,
bit for bit; this is checked, not assumed. A private joint forest cannot equal it, because the
other forests are trained without noise: they have nothing to hide from anyone.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from spinney.errors import SpinneyError
from spinney.jobs.file import EvaluationConfig
from spinney.jobs.registry import spec_of
from spinney.jobs.rows import Parties, PartyRows
from spinney.privacy.ledger import Ledger
from spinney.protocols import explanation as explaining
from spinney.protocols.columns.leakage import LabelLeakage
from spinney.protocols.explanation import Explained
from spinney.protocols.model import ForestModel
from spinney.protocols.private_evaluation.settings import digest_of, evaluation_settings
from spinney.protocols.private_evaluation.simulated import Evaluated, evaluate_models
from spinney.protocols.release_terms import Hardening
from spinney.protocols.spec import PartySite, Spec
from spinney.protocols.training import Trained, Training, majorities
from spinney.protocols.verified.simulated import connect_parties
from spinney.report.door import release
from spinney.report.facts import Holder, PartyQuality
from spinney.report.hardening import with_shown_classes
from spinney.report.report import Report
from spinney.simulation.intervals import Interval, intervals
from spinney.simulation.progress import Stages, Step
from spinney.simulation.scores import (
    LESS_IS_BETTER,
    home_scores,
    predict_table,
    score_names,
    scores_of,
)
from spinney.simulation.unfinished import reporting_early_end
from spinney.simulation.watching import Heard, watch_parties
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Schema
from spinney.tables.table import MemoryTable
from spinney.tables.undeclared import ranges_read
from spinney.tables.withheld import UndeclaredRows
from spinney.transport.channel import Answering, Channel
from spinney.trees.threads import thread_count
from spinney.typing import Floats

Scores = dict[str, float]
JOINT = ("joint_tree", "joint_forest")
MODELS = ("local", "federated", "pooled", *JOINT)
_TINY_ROWS = 256
_TINY_COLUMNS = 24
_OF_OWN_TREE = ("nodes", "home_nodes", "edit_distance", "kept_home")


class PartyComparison(msgspec.Struct, frozen=True):
    """The forests' scores on one party's held-out rows; undefined scores are left out."""

    party: str
    n_training: int
    n_held_out: int
    local: Scores
    federated: Scores
    pooled: Scores | None
    intervals: dict[str, Interval] = {}  # 95 %, by score
    home: Scores = {}  # of the joint forest, fitted at home to other held-out rows
    common: Scores = {}  # how common its most common class is: here, and at all parties
    joint: dict[str, Scores] = {}  # of models from summed counts, beside trees that are personal

    def scores_of(self, model: str) -> Scores | None:
        """Return a model's scores; None if it was not scored."""
        found: Scores | None = getattr(self, model, None) or self.joint.get(model)
        return found


@dataclass(frozen=True)
class Running:
    """How training runs; none of these choices changes the forest."""

    protocol: Spec[Any]
    n_jobs: int | None = None
    secure_sum: bool = False
    honest: int | None = None  # the number of parties that secure sums trust
    is_blind: bool = False  # whether only the parties see the sums
    evaluation: EvaluationConfig | None = None  # how the model is evaluated with noise
    release: Hardening = field(default_factory=Hardening)  # the terms on which the model leaves

    def site(self, name: str, ledger: Ledger | None) -> PartySite:
        """Return the site of a simulated party."""
        return PartySite(name, self.n_jobs, ledger, is_masked=self.secure_sum)

    def alone(self) -> "Running":
        """Return how a party trains alone, without masks."""
        return replace(self, secure_sum=False, is_blind=False)


@dataclass(frozen=True)
class Comparison:
    """The joint training, and its comparison with the other forests."""

    training: Training
    parties: tuple[PartyComparison, ...]
    is_pooled: bool | None  # equal to the pooled forest, bit for bit; None: not compared
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)  # of private jobs
    explained: Explained | None = None
    evaluated: Evaluated | None = None  # with noise
    label_leakage: LabelLeakage | None = None  # of vertical jobs
    holders: tuple[Holder, ...] = ()  # of vertical jobs
    expects_pooled: bool = False  # whether the protocol promises the pooled model, bit for bit
    shares_rows: bool = False  # whether all parties hold the same rows
    undeclared: UndeclaredRows = field(default_factory=UndeclaredRows)  # of values read from tables
    release: Hardening = field(default_factory=Hardening)  # the terms on which the model leaves

    @property
    def model(self) -> ForestModel:
        """The joint model, which knows the values that it must not show."""
        return replace(self.training.model, undeclared=self.undeclared)

    @property
    def score_names(self) -> tuple[str, ...]:
        """The names of the scores, the main one first."""
        return score_names(str(self.training.settings["task"]))

    def mean(self, model: str, score: str) -> float | None:
        """Return a model's score, averaged over parties: one of `MODELS`.

        Each party has the same weight. Parties at which a forest lacks the score are left out, so
        that the means of two forests are over the same rows.
        """
        found = [party.scores_of(model) for party in self._judged_by_all(score)]
        known = [scores[score] for scores in found if scores is not None and score in scores]
        return float(np.mean(known)) if known else None

    def helped(self, score: str) -> tuple[int, int]:
        """Return at how many parties joining improved a score, and how many could compare."""
        sign = -1 if score in LESS_IS_BETTER else 1
        pairs = [
            (sign * party.local[score], sign * party.federated[score])
            for party in self.parties
            if score in party.local and score in party.federated
        ]
        return sum(joint > alone for alone, joint in pairs), len(pairs)

    def _of_own_tree(self, party: str) -> Scores:
        """Return the size and origin of a party's own tree; nothing for a forest.

        In a private job only the party itself knows them.
        """
        if party not in self.training.model.owners or party not in self.training.quality:
            return {}
        found = self.training.quality[party].scores
        return {key: found[key] for key in _OF_OWN_TREE if not np.isnan(found[key])}

    def _judged_by_all(self, score: str) -> list[PartyComparison]:
        """Return the parties with a score of every forest; without local scores, of the others."""
        judged = [party for party in self.parties if score in party.federated]
        return [party for party in judged if score in party.local] or judged

    def report(self) -> Report:
        """Return the training's report, with scores on held-out rows if there are any."""
        report = Report.of(
            self.training,
            ledgers=self.ledgers,
            label_leakage=self.label_leakage,
            holders=self.holders,
            release=self.release,
        )
        if self.explained is not None:
            report = report.explained(self.model, self.explained, "held-out")
        if self.evaluated is not None:
            found = self.evaluated
            shown = with_shown_classes(found.quality, self.model, self.release.smallest_leaf)
            report = report.evaluated(shown, found.claims, found.rounds)
        if not any(party.n_held_out for party in self.parties):
            return report
        quality = tuple(
            PartyQuality(
                party.party,
                "held-out",
                party.n_held_out,
                {**_in_one(party), **self._of_own_tree(party.party)},
                party.intervals,
            )
            for party in self.parties
        )
        return msgspec.structs.replace(report, quality=quality)


def compare(parties: Parties, settings: Any, running: Running, stages: Stages) -> Comparison:
    """Train and score all forests."""
    held_out = any(party.held_out.n_rows for party in parties.rows.values())
    local_names = list(parties.rows) if held_out else []
    stages.expect(2 + len(local_names) + (parties.pooled is not None))
    stages.begin("loading kernels")
    with stages.compiling():
        _warm_up(parties.training, settings, running)
    ledgers = _ledgers(parties.training, settings)
    n_trees = running.protocol.n_trees(settings)
    step = stages.begin("joint forest", n_trees, running.protocol.step)
    channel, _ = connect(parties.training, settings, running, ledgers, stages.heard)
    with reporting_early_end(
        running.protocol.name, channel, running.protocol.described(settings), ledgers
    ):
        joint = _with_model(
            running.protocol.train(channel, settings, n_jobs=running.n_jobs, progress=step)
        )
    explained = None
    # exact counts of a party's rows would cost budget; one tree per party has no common prediction
    if held_out and not settings.privacy and not joint.model.owners:
        joint, explained = _explained(joint, parties, running)
    evaluated = _evaluated(joint, parties, running, ledgers) if running.evaluation else None
    name, without_noise = running.protocol.baseline(settings)
    alone = replace(running.alone(), protocol=spec_of(name))
    pooled = None
    if parties.pooled is not None:
        step = stages.begin("pooled forest", n_trees, alone.protocol.step)
        pooled = train_over({"all": parties.pooled}, without_noise, alone, step)
    local = {}
    for name in local_names:
        step = stages.begin(f"forest of {name!r} alone", n_trees, alone.protocol.step)
        local[name] = _train_alone(parties.rows[name].training, without_noise, alone, step)
    trained = {"federated": joint, "pooled": pooled}
    common = _common(parties)
    compared = tuple(
        _judged(
            name,
            rows,
            {"local": local.get(name), **trained},
            thread_count(running.n_jobs),
            common.get(name, {}),
        )
        for name, rows in parties.rows.items()
    )
    same = None
    if pooled is not None and not settings.privacy:
        same = joint.model.to_bytes() == pooled.model.to_bytes()
    expects = running.protocol.is_pooled(settings)
    return Comparison(joint, compared, same, ledgers, explained, evaluated, expects_pooled=expects)


def _evaluated(
    joint: Training, parties: Parties, running: Running, ledgers: Mapping[str, Ledger]
) -> Evaluated:
    """Have the parties evaluate the forest that leaves, on held-out rows if there are any."""
    asked, n_parties = running.evaluation, len(parties.rows)
    assert asked is not None
    leaving, _ = release(joint.model, running.release)
    held_out = any(party.held_out.n_rows for party in parties.rows.values())
    settings = evaluation_settings(
        "evaluation",
        (digest_of(leaving.to_bytes()),),
        "classification" if joint.settings["task"] == "classification" else "regression",
        asked.epsilon,
        by=asked.by,
        per_party=asked.per_party,
        honest=running.honest,
        in_shares=n_parties > 1,
    )
    tables = {
        name: party.held_out if held_out else party.training for name, party in parties.rows.items()
    }
    return evaluate_models(
        (leaving,),
        tables,
        ledgers or {name: Ledger.in_memory(name) for name in tables},
        settings,
        rows="held-out" if held_out else "training",
        n_jobs=running.n_jobs,
    )


def _explained(
    joint: Training, parties: Parties, running: Running
) -> tuple[Training, Explained | None]:
    """Have the parties explain the forest that leaves, on their held-out rows."""
    sides: dict[str, Answering] = {
        name: explaining.Party(rows.held_out, n_jobs=running.n_jobs)
        for name, rows in parties.rows.items()
    }
    channel = connect_parties(sides, is_masked=running.secure_sum, honest=running.honest)
    leaving, _ = release(joint.model, running.release)
    read = UndeclaredRows(ranges=ranges_read(leaving.schema, parties.read_facts))
    question = explaining.question_of(replace(leaving, undeclared=read))
    explained = explaining.explain(channel, question)
    n_before = len(joint.rounds)
    asked = (replace(r, number=r.number + n_before) for r in channel.rounds)
    return replace(joint, rounds=(*joint.rounds, *asked)), explained


def train_over(
    tables: Mapping[str, MemoryTable],
    settings: Any,
    running: Running,
    step: Step,
) -> Training:
    """Train one model over the parties that hold the tables."""
    channel, _ = connect(tables, settings, running, _ledgers(tables, settings))
    trained = running.protocol.train(channel, settings, n_jobs=running.n_jobs, progress=step)
    return _with_model(trained)


def _with_model(trained: Trained) -> Training:
    """Return a training that has a model, as every protocol compared here does."""
    assert isinstance(trained, Training)
    return trained


def _ledgers(parties: Iterable[str], settings: Any) -> dict[str, Ledger]:
    return {name: Ledger.in_memory(name) for name in parties} if settings.privacy else {}


def connect(
    tables: Mapping[str, MemoryTable],
    settings: Any,
    running: Running,
    ledgers: Mapping[str, Ledger],
    heard: Heard = lambda *_: None,
) -> tuple[Channel, dict[str, Answering]]:
    """Return a channel to the parties that hold the tables, and the parties themselves."""
    protocol = running.protocol
    sides: dict[str, Answering] = {
        name: protocol.party(table, settings, running.site(name, ledgers.get(name)))
        for name, table in tables.items()
    }
    channel = connect_parties(
        watch_parties(sides, heard),
        is_masked=running.secure_sum,
        privacy=settings.privacy,
        honest=running.honest,
        is_blind=running.is_blind,
        unverified=() if protocol.is_verified(settings) else protocol.summed,
    )
    return channel, sides


def _train_alone(
    table: MemoryTable, settings: Any, running: Running, step: Step
) -> Training | None:
    """Return a party's own forest; None if all its rows have the same class."""
    target = table.targets
    if settings.task == "classification" and np.unique(target).size < 2:
        return None
    return train_over({"all": table}, settings, running, step)


def _common(parties: Parties) -> dict[str, Scores]:
    """Return how common each party's most common class is among held-out rows: its, and all."""
    tables = {name: rows.held_out for name, rows in parties.rows.items()}
    labels = [len(table.schema.label.classes or ()) for table in tables.values()]
    if not min(labels):
        return {}
    counts = {
        name: np.bincount(table.target[table.rows].astype(np.int64), minlength=labels[0])
        for name, table in tables.items()
    }
    return majorities(counts)


def _judged(
    name: str,
    rows: PartyRows,
    trained: Mapping[str, Training | None],
    n_threads: int,
    common: Scores,
) -> PartyComparison:
    truth, predicted = np.zeros(0), {}
    for model, training in trained.items():
        if training is not None:
            truth, predicted[model] = predict_table(
                training.model, rows.held_out, n_threads=n_threads
            )
    is_class = rows.held_out.schema.label.kind == "class"
    found = compare_scores(name, rows.training.n_rows, truth, predicted, is_class=is_class)
    if "accuracy" not in found.federated or "local" not in predicted:
        return found
    home = home_scores(truth, predicted["federated"])
    return msgspec.structs.replace(found, common=common, home=home)


def compare_scores(
    name: str,
    n_training: int,
    truth: NDArray[Any],
    predicted: Mapping[str, Floats],
    *,
    is_class: bool,
) -> PartyComparison:
    """Return the forests' scores at a party, from their predictions for its held-out rows."""
    scores = {
        model: scores_of(truth, means, is_class=is_class) for model, means in predicted.items()
    }
    return PartyComparison(
        name,
        n_training,
        truth.size,
        scores.get("local", {}),
        scores["federated"],
        scores.get("pooled"),
        intervals(truth, predicted, is_class=is_class, seed=0),
        joint={model: scores[model] for model in JOINT if model in scores},
    )


def _in_one(party: PartyComparison) -> Scores:
    """Return all scores of a party under different names; the joint forest's have no prefix."""
    others: dict[str, Scores] = {
        "local": party.local,
        "home": party.home,
        "pooled": party.pooled or {},
        **party.joint,
    }
    named = {
        f"{model}_{score}": value
        for model, scores in others.items()
        for score, value in scores.items()
    }
    return {**party.federated, **party.common, **named}


def _tiny(table: MemoryTable) -> MemoryTable:
    """Return a few rows of a table, and of thousands of columns a few of each kind."""
    found = table.select(np.linspace(0, table.n_rows - 1, _TINY_ROWS).astype(np.intp))
    kinds = np.array([column.kind for column in table.schema.columns])
    places = [np.flatnonzero(kinds == kind)[:_TINY_COLUMNS] for kind in dict.fromkeys(kinds)]
    keep = np.sort(np.concatenate(places)).tolist()
    if len(keep) == kinds.size or not isinstance(table.columns, VectorColumns):
        return found
    return replace(
        found,
        schema=Schema(tuple(table.schema.columns[i] for i in keep), table.schema.label),
        columns=VectorColumns(tuple(table.columns.vectors[i] for i in keep)),
        keys=found.all_keys,
    )


def _warm_up(tables: Mapping[str, MemoryTable], settings: Any, running: Running) -> None:
    """Train a tiny forest, so that kernels are compiled before anything is timed."""
    few = {name: _tiny(table) for name, table in tables.items()}
    log = logging.getLogger("spinney.party")
    log.disabled = True  # some rows are trained on several times here
    try:
        train_over(few, running.protocol.small(settings), running, lambda *_: None)
    except SpinneyError:
        return  # the real training will report what is wrong
    finally:
        log.disabled = False
