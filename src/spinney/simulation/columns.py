"""Grow a vertical forest and compare it with the pooled one and with each party's own columns.

All are judged on the same rows, which were held back at all parties. As in the paper (RF1, RF2),
a party's own forest has the labels, though most parties would have none: what is compared is what
the columns of the others are worth. A party with no columns has no forest of its own.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from spinney.jobs.file import JobFile
from spinney.jobs.holdings import holdings_of, pooled
from spinney.jobs.vertical_settings import vertical_baseline, vertical_settings_of
from spinney.privacy.ledger import Ledger
from spinney.protocols.model import ForestModel
from spinney.protocols.training import Training
from spinney.protocols.vertical_forest import matched as matched_forest
from spinney.protocols.vertical_forest import settings as partial_model
from spinney.protocols.vertical_forest.labels import LabelAccount
from spinney.protocols.vertical_forest.leakage import label_leakage
from spinney.protocols.vertical_forest.model import joined_model
from spinney.protocols.vertical_forest.prediction import Roles
from spinney.report.holders import holders_of
from spinney.simulation.comparison import (
    Comparison,
    PartyComparison,
    compared,
)
from spinney.simulation.progress import Stages, Step
from spinney.simulation.unfinished import telling_what_there_is
from spinney.simulation.watching import Heard, watched
from spinney.tables.holding import Holding
from spinney.transport.in_process import InProcess
from spinney.trees.threads import thread_count
from spinney.typing import Floats

Sides = Mapping[str, matched_forest.Party]


def compare_columns(job: JobFile, asked: matched_forest.Settings, stages: Stages) -> Comparison:
    """Read a job's tables, match their rows, grow and judge all forests."""
    holdings, facts = holdings_of(job, asked)
    label = holdings[asked.label_party].label
    assert label is not None
    settings = vertical_settings_of(job, label.classes)
    read = tuple(fact for fact in facts if fact.endswith(f" of {label.name!r}"))
    accounts = {}
    if settings.vertical.label_epsilon is not None:
        paid_from = Ledger.in_memory(settings.label_party)
        accounts = {settings.label_party: LabelAccount(paid_from, read_facts=read)}
    ledgers = _ledgers(accounts)
    n_jobs = job.settings.n_jobs
    own = [name for name, held in holdings.items() if held.columns]
    stages.expect(2 + len(own))
    n_trees = settings.n_estimators
    step = stages.begin("joint forest", n_trees)
    with stages.compiling():
        joint, sides, roles = _joint(holdings, settings, accounts, n_jobs, step, heard=stages.heard)
    held_out = {name: side.held_out for name, side in sides.items()}
    training = {name: side.training for name, side in sides.items()}
    _, plain = vertical_baseline(settings)
    step = stages.begin("pooled forest", n_trees)
    whole = _alone(pooled(training), plain, n_jobs, step)
    local = {}
    for name in own:
        step = stages.begin(f"forest of {name!r}'s columns alone", n_trees)
        local[name] = _alone(_labelled(training, name), plain, n_jobs, step)
    parties = _judged(_Grown(joint.model, whole, local), held_out, training, n_jobs)
    same = None if ledgers else _bare_bytes(joint.model) == _bare_bytes(whole)
    leakage = label_leakage(sides[settings.label_party].forest)
    columns = {name: [column.name for column in held.columns] for name, held in holdings.items()}
    consent = tuple(holdings) if settings.join_parts else ()
    held = holders_of(roles, columns, consent)
    return Comparison(joint, parties, same, ledgers, label_leakage=leakage, holders=held)


def _ledgers(accounts: Mapping[str, LabelAccount]) -> dict[str, Ledger]:
    """Return the ledgers that are paid from, by party."""
    return {name: one.ledger for name, one in accounts.items() if one.ledger is not None}


def _bare_bytes(model: ForestModel) -> bytes:
    """Return a forest's bytes without who agreed to join it."""
    return replace(model, consent=()).to_bytes()


@dataclass(frozen=True)
class _Grown:
    """The forests to be compared."""

    federated: ForestModel
    pooled: ForestModel
    local: Mapping[str, ForestModel]


def _judged(
    grown: _Grown,
    held_out: Mapping[str, Holding],
    training: Mapping[str, Holding],
    n_jobs: int | None,
) -> tuple[PartyComparison, ...]:
    """Judge all forests by the rows that were held back."""
    n_threads, every = thread_count(n_jobs), pooled(held_out)
    assert every.label is not None
    assert every.target is not None
    together = {
        "federated": _predicted(grown.federated, every, n_threads),
        "pooled": _predicted(grown.pooled, every, n_threads),
    }
    found = []
    for name, rows in training.items():
        said = dict(together)
        if name in grown.local:
            own = _labelled(held_out, name)
            said = {"local": _predicted(grown.local[name], own, n_threads), **together}
        is_class = every.label.kind == "class"
        found.append(compared(name, rows.n_rows, every.target, said, is_class=is_class))
    return tuple(found)


def _joint(
    holdings: Mapping[str, Holding],
    settings: matched_forest.Settings,
    accounts: Mapping[str, LabelAccount],
    n_jobs: int | None,
    step: Step,
    *,
    heard: Heard = lambda *_: None,
) -> tuple[Training, Sides, Roles]:
    """Return the forest that the parties grow; in a simulation its parts are in one place."""
    sides = {
        name: matched_forest.Party(
            holding, settings, name, n_jobs=n_jobs, account=accounts.get(name, LabelAccount())
        )
        for name, holding in holdings.items()
    }
    channel = InProcess(watched(sides, heard))
    told = {**asdict(settings.vertical.forest), **settings.described()}
    told["privacy"] = settings.vertical.label_epsilon
    with telling_what_there_is(partial_model.NAME, channel, told, _ledgers(accounts)):
        grown = matched_forest.train(channel, settings, n_jobs=n_jobs, progress=step)
    parts = {name: side.finished_model for name, side in sides.items()}
    training = Training(
        grown.model or joined_model(parts, tuple(parts)),
        grown.parties,
        grown.rounds,
        grown.seconds,
        grown.quality,
        grown.score,
        grown.settings,
        grown.claims,
    )
    return training, sides, grown.roles


def _alone(
    holding: Holding, settings: matched_forest.Settings, n_jobs: int | None, step: Step
) -> ForestModel:
    """Return the forest of one party that holds all there is."""
    one = replace(settings, label_party="all")
    return _joint({"all": holding}, one, {}, n_jobs, step)[0].model


def _labelled(holdings: Mapping[str, Holding], name: str) -> Holding:
    """Return a party's columns beside the labels, wherever those are."""
    (holder,) = (held for held in holdings.values() if held.label is not None)
    return replace(holdings[name], label=holder.label, target=holder.target)


def _predicted(model: ForestModel, holding: Holding, n_threads: int) -> Floats:
    """Return what a forest says of each row."""
    if not holding.n_rows:
        return np.zeros((0, model.n_outputs))
    values = holding.table.columns.values(slice(None))
    (found,) = model.predict_batches(iter([values]), n_threads=n_threads)
    return found
