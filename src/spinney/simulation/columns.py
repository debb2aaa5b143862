"""Train a vertical forest; compare it with the pooled forest and with each party's columns alone.

All forests are scored on the same rows, which all parties held back. As in the paper (RF1, RF2), a
party's own forest has the labels, although most parties would have none: the comparison measures
what the other parties' columns are worth. A party without columns has no own forest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np

from spinney.jobs.file import JobFile
from spinney.jobs.holdings import holdings_of, pool_holdings
from spinney.privacy.identities import simulated_identities
from spinney.privacy.ledger import Ledger
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import Hardening
from spinney.protocols.settings import outside_of
from spinney.protocols.spec import ColumnsSide, ColumnsSpec, PartySite
from spinney.protocols.training import Roles, Training
from spinney.report.holders import holders_of
from spinney.simulation.comparison import Comparison, PartyComparison, compare_scores
from spinney.simulation.progress import Stages, Step
from spinney.simulation.unfinished import reporting_early_end
from spinney.simulation.watching import Heard, watch_parties
from spinney.tables.holding import Holding
from spinney.tables.undeclared import require_common_classes, undeclared_rows
from spinney.transport.in_process import InProcess
from spinney.trees.threads import thread_count
from spinney.typing import Floats

Sides = Mapping[str, ColumnsSide]


def compare_columns(job: JobFile, stages: Stages) -> Comparison:
    """Read a job's tables, match their rows, train and score all forests."""
    spec = job.spec
    assert isinstance(spec, ColumnsSpec)
    asked = job.protocol_settings()
    holder, needs_ranges = spec.label_party(asked), spec.needs_ranges(asked)
    outside = outside_of(asked.privacy)
    holdings, facts = holdings_of(job, holder, needs_ranges=needs_ranges, outside=outside)
    label, target = holdings[holder].label, holdings[holder].target
    assert label is not None
    assert target is not None
    settings = job.protocol_settings(label.classes)
    if settings.privacy is not None:
        fewest = (job.release or Hardening()).smallest_leaf
        require_common_classes(label, [target], facts, fewest)
    read = tuple(fact for fact in facts if fact.endswith(f" of {label.name!r}"))
    ledgers = {holder: Ledger.in_memory(holder)} if settings.privacy is not None else {}
    n_jobs = job.settings.n_jobs
    sites = _sites(tuple(holdings), n_jobs, ledgers, read)
    own = [name for name, held in holdings.items() if held.columns]
    stages.expect(2 + len(own))
    n_trees = spec.n_trees(settings)
    step = stages.begin("joint forest", n_trees, spec.step)
    with stages.compiling():
        joint, sides, roles = _joint(spec, holdings, settings, sites, step, heard=stages.heard)
    held_out = {name: side.held_out for name, side in sides.items()}
    training = {name: side.training for name, side in sides.items()}
    _, plain = spec.baseline(settings)
    step = stages.begin("pooled forest", n_trees, spec.step)
    pooled = pool_holdings(training)
    whole = _alone(spec, pooled, plain, n_jobs, step)
    local = {}
    for name in own:
        step = stages.begin(f"forest of {name!r}'s columns alone", n_trees, spec.step)
        local[name] = _alone(spec, _labelled(training, name), plain, n_jobs, step)
    parties = _judged(_Grown(joint.model, whole, local), held_out, training, n_jobs)
    same = None if ledgers else _bare_bytes(joint.model) == _bare_bytes(whole)
    leakage = spec.label_leakage(sides[holder])
    columns = {name: [column.name for column in held.columns] for name, held in holdings.items()}
    consent = tuple(holdings) if joint.model.consent else ()
    held = holders_of(roles, columns, consent)
    return Comparison(
        joint,
        parties,
        same,
        ledgers,
        label_leakage=leakage,
        holders=held,
        expects_pooled=spec.is_pooled(settings),
        shares_rows=True,
        undeclared=undeclared_rows([pooled.table], joint.model.schema, facts),
    )


def _sites(
    names: tuple[str, ...],
    n_jobs: int | None,
    ledgers: Mapping[str, Ledger],
    read_facts: tuple[str, ...],
) -> dict[str, PartySite]:
    """Return the parties' sites in one run, with identities that are made on the fly."""
    run, identities = f"simulation {uuid4()}", simulated_identities(names)
    return {
        name: PartySite(
            name,
            n_jobs,
            ledgers.get(name),
            read_facts=read_facts,
            run=run,
            parties=names,
            identity=identities[name],
        )
        for name in names
    }


def _bare_bytes(model: ForestModel) -> bytes:
    """Return a forest's bytes without the names of the parties that consented to joining it."""
    return replace(model, consent=()).to_bytes()


@dataclass(frozen=True)
class _Grown:
    """The forests to compare."""

    federated: ForestModel
    pooled: ForestModel
    local: Mapping[str, ForestModel]


def _judged(
    grown: _Grown,
    held_out: Mapping[str, Holding],
    training: Mapping[str, Holding],
    n_jobs: int | None,
) -> tuple[PartyComparison, ...]:
    """Score all forests on the held-out rows."""
    n_threads, every = thread_count(n_jobs), pool_holdings(held_out)
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
        found.append(compare_scores(name, rows.n_rows, every.target, said, is_class=is_class))
    return tuple(found)


def _joint(
    spec: ColumnsSpec[Any],
    holdings: Mapping[str, Holding],
    settings: Any,
    sites: Mapping[str, PartySite],
    step: Step,
    *,
    heard: Heard = lambda *_: None,
) -> tuple[Training, Sides, Roles]:
    """Return the parties' joint forest; a simulation has its parts in one place."""
    sides = {name: spec.party(holding, settings, sites[name]) for name, holding in holdings.items()}
    channel = InProcess(watch_parties(sides, heard))
    ledgers = {name: site.ledger for name, site in sites.items() if site.ledger is not None}
    shown = spec.described(settings)
    n_jobs = next(iter(sites.values())).n_jobs
    with reporting_early_end(spec.name, channel, shown, ledgers):
        grown = spec.train(channel, settings, n_jobs=n_jobs, progress=step)
    training = Training(
        grown.model or spec.join(sides),
        grown.parties,
        grown.rounds,
        grown.seconds,
        grown.quality,
        grown.score,
        grown.settings,
        grown.claims,
        curves=grown.curves,
    )
    assert grown.roles is not None
    return training, sides, grown.roles


def _alone(
    spec: ColumnsSpec[Any], holding: Holding, settings: Any, n_jobs: int | None, step: Step
) -> ForestModel:
    """Return the forest of one party that holds everything."""
    sites = {"all": PartySite("all", n_jobs)}
    return _joint(spec, {"all": holding}, settings, sites, step)[0].model


def _labelled(holdings: Mapping[str, Holding], name: str) -> Holding:
    """Return a party's columns with the labels, whichever party holds these."""
    (holder,) = (held for held in holdings.values() if held.label is not None)
    return replace(holdings[name], label=holder.label, target=holder.target)


def _predicted(model: ForestModel, holding: Holding, n_threads: int) -> Floats:
    """Return a forest's prediction for each row."""
    if not holding.n_rows:
        return np.zeros((0, model.n_outputs))
    values = holding.table.columns.values(slice(None))
    (found,) = model.predict_batches(iter([values]), n_threads=n_threads)
    return found
