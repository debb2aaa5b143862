"""Evolve the parties' trees and compare each with the tree its party grows alone.

Each party is judged by its own tree on its own held-out rows. The pooled tree is CART's, of the
depth that cross-validation on all training rows chooses.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from uuid import uuid4

from spinney.jobs.registry import Site, genetic_party
from spinney.jobs.rows import Parties, PartyRows
from spinney.privacy.ledger import Ledger
from spinney.protocols import genetic_tree
from spinney.protocols.genetic_tree.gathered import gathered, home_model
from spinney.protocols.genetic_tree.settings import GeneticSettings
from spinney.protocols.model import ForestModel
from spinney.protocols.secure_sums.simulated import secured
from spinney.simulation.comparison import (
    Comparison,
    PartyComparison,
    Running,
    compared,
)
from spinney.simulation.progress import Stages, Step
from spinney.simulation.scores import predicted_on
from spinney.simulation.unfinished import telling_what_there_is
from spinney.simulation.watching import Heard, watched
from spinney.tables.table import MemoryTable
from spinney.transport.channel import Channel
from spinney.transport.in_process import InProcess
from spinney.trees.threads import thread_count


def compare_personal(
    parties: Parties, settings: GeneticSettings, running: Running, stages: Stages
) -> Comparison:
    """Evolve trees for all parties; judge them, the parties' own and the pooled one."""
    stages.expect(1 + (parties.pooled is not None))
    step = stages.begin("evolved trees")
    with_noise = settings.privacy is not None or settings.size_epsilon is not None
    ledgers = {name: Ledger.in_memory(name) for name in parties.training if with_noise}
    with stages.compiling():
        training, homes = _evolved(
            parties.training, settings, running, step, ledgers=ledgers, heard=stages.heard
        )
    pooled = None
    if parties.pooled is not None:
        step = stages.begin("pooled tree")
        few = replace(settings, population_size=2, n_generations=1, size_epsilon=None, privacy=None)
        _, alone = _evolved({"all": parties.pooled}, few, running.alone(), step, ledgers={})
        pooled = alone.of_owner("all")
    n_threads = thread_count(running.n_jobs)

    def judged(name: str, rows: PartyRows) -> PartyComparison:
        trees = {"local": homes.of_owner(name), "federated": training.model.of_owner(name)}
        if pooled is not None:
            trees["pooled"] = pooled
        said = {}
        for which, tree in trees.items():
            truth, said[which] = predicted_on(tree, rows.held_out, n_threads=n_threads)
        is_class = training.model.schema.label.kind == "class"
        return compared(name, rows.training.n_rows, truth, said, is_class=is_class)

    found = tuple(judged(name, rows) for name, rows in parties.rows.items())
    return Comparison(training, found, None, ledgers if settings.privacy else {})


def _evolved(
    tables: Mapping[str, MemoryTable],
    settings: GeneticSettings,
    running: Running,
    step: Step,
    *,
    ledgers: Mapping[str, Ledger],
    heard: Heard = lambda *_: None,
) -> tuple[genetic_tree.Evolved, ForestModel]:
    """Return the parties' evolved trees, and those they grow alone."""
    parties = {
        name: genetic_party(table, settings, Site(name, running.n_jobs, ledgers.get(name)))
        for name, table in tables.items()
    }
    sides = watched(parties, heard)
    channel: Channel = InProcess(sides)
    if running.secure_sum:
        channel = secured(
            sides,
            InProcess,
            genetic_tree.SUMMED,
            job=f"simulation {uuid4()}",
            honest=running.honest,
            min_survivors=len(sides) if settings.privacy else None,
        )
    with telling_what_there_is(genetic_tree.NAME, channel, asdict(settings), ledgers):
        evolved = genetic_tree.train(channel, settings, progress=step)
    return gathered(evolved, parties), home_model(evolved, parties)
