"""Train models that the parties keep to themselves; compare each with its party's own model.

Each party's model is scored on the party's held-out rows. The pooled model is the one that a single
party with all training rows would train alone. Beside them stand a joint tree of the same depth and
a joint forest, which parties can have if sums of their counts may leave.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spinney.jobs.registry import spec_of
from spinney.jobs.rows import Parties, PartyRows
from spinney.privacy.ledger import Ledger
from spinney.protocols.genetic_tree import Evolved
from spinney.protocols.model import ForestModel
from spinney.protocols.settings import Task, forest_settings
from spinney.protocols.spec import OwnModelsSpec
from spinney.simulation.comparison import (
    JOINT,
    Comparison,
    PartyComparison,
    Running,
    compare_scores,
    connect,
    train_over,
)
from spinney.simulation.progress import Stages, Step
from spinney.simulation.scores import predict_table
from spinney.simulation.unfinished import reporting_early_end
from spinney.simulation.watching import Heard
from spinney.tables.table import MemoryTable
from spinney.trees.threads import thread_count


def compare_personal(
    parties: Parties, settings: Any, running: Running, stages: Stages
) -> Comparison:
    """Train models for all parties; score them, the parties' own models and the pooled one."""
    stages.expect(3 + (parties.pooled is not None))
    step = stages.begin("own trees", unit=running.protocol.step)
    ledgers = {name: Ledger.in_memory(name) for name in parties.training}
    with stages.compiling():
        training, homes = _trained(
            parties.training, settings, running, step, ledgers=ledgers, heard=stages.heard
        )
    pooled = None
    if parties.pooled is not None:
        name, few = running.protocol.baseline(settings)
        alone = replace(running.alone(), protocol=spec_of(name))
        step = stages.begin("pooled tree", unit=alone.protocol.step)
        _, own = _trained({"all": parties.pooled}, few, alone, step, ledgers={})
        pooled = own.of_owner("all")
    joint = _joint_models(parties.training, training, running, stages)
    n_threads = thread_count(running.n_jobs)

    def judged(name: str, rows: PartyRows) -> PartyComparison:
        trees = {"local": homes.of_owner(name), "federated": training.model.of_owner(name), **joint}
        if pooled is not None:
            trees["pooled"] = pooled
        said = {}
        for which, tree in trees.items():
            truth, said[which] = predict_table(tree, rows.held_out, n_threads=n_threads)
        is_class = training.model.schema.label.kind == "class"
        return compare_scores(name, rows.training.n_rows, truth, said, is_class=is_class)

    found = tuple(judged(name, rows) for name, rows in parties.rows.items())
    return Comparison(training, found, None, ledgers if settings.privacy else {})


def _joint_models(
    tables: Mapping[str, MemoryTable], training: Evolved, running: Running, stages: Stages
) -> dict[str, ForestModel]:
    """Return a joint tree as deep as the evolved ones and a joint forest, both without noise."""
    is_class = training.model.schema.label.kind == "class"
    task: Task = "classification" if is_class else "regression"
    one_tree = {"n_estimators": 1, "bootstrap": False, "max_features": None}
    asked: tuple[dict[str, Any], ...] = ({**one_tree, "max_depth": training.depth}, {})
    alone = replace(running.alone(), protocol=spec_of("horizontal_forest"))
    found = {}
    for name, given in zip(JOINT, asked, strict=True):
        settings = forest_settings(given, task, None)
        step = stages.begin(name.replace("_", " "), settings.n_estimators, alone.protocol.step)
        found[name] = train_over(tables, settings, alone, step).model
    return found


def _trained(
    tables: Mapping[str, MemoryTable],
    settings: Any,
    running: Running,
    step: Step,
    *,
    ledgers: Mapping[str, Ledger],
    heard: Heard = lambda *_: None,
) -> tuple[Any, ForestModel]:
    """Return a training with the parties' models, and the models that they train alone."""
    spec = running.protocol
    assert isinstance(spec, OwnModelsSpec)
    channel, parties = connect(tables, settings, running, ledgers, heard)
    paid = ledgers if settings.privacy else {}
    with reporting_early_end(spec.name, channel, spec.described(settings), paid):
        training = spec.train(channel, settings, n_jobs=running.n_jobs, progress=step)
    return spec.gather(training, parties)
