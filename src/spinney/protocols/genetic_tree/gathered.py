"""Gather the trees that parties keep: a simulation may do this, a coordinator may not.

In deployment each party has its own tree and nobody has all of them. In a simulation, where all
parties run in one process, their trees become one model that names the party of each tree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from spinney.errors import InternalError
from spinney.privacy.claims import Verdict
from spinney.privacy.scopes import View
from spinney.protocols.genetic_tree.bins import CategoryBins, category_bins_of
from spinney.protocols.genetic_tree.coordinator import Evolved
from spinney.protocols.genetic_tree.fitness import show_score
from spinney.protocols.genetic_tree.local_fit import HomeTree, PersonalTree
from spinney.protocols.genetic_tree.party import Party
from spinney.protocols.genetic_tree.settings import NAME
from spinney.protocols.model import ForestModel
from spinney.protocols.rows.facts import leaf_values
from spinney.protocols.training import PartyClaim, Quality
from spinney.tables.schema import Schema
from spinney.trees.binning import Binning
from spinney.trees.dtypes import TARGET_BITS
from spinney.trees.structures import FittedTree, forest_of

_GATHERED: Final = (
    "UNPROTECTED: this model holds the parties' own trees (exact counts of their rows), gathered "
    "in a simulation; deployed, each stays at its party. No epsilon holds."
)


def gather_trees(evolved: Evolved, parties: Mapping[str, Party]) -> Evolved:
    """Return the training with all parties' trees as its model, and each tree's own quality."""
    found = {name: party.personal for name, party in parties.items()}
    chosen = {name: tree for name, tree in found.items() if tree is not None}
    if not chosen:
        raise InternalError("No party has chosen a tree.")
    model = _model(evolved, parties, {name: tree.tree for name, tree in chosen.items()})
    if evolved.settings["privacy"] is not None:  # only the party itself may see exact scores
        return replace(evolved, model=model, claims=_open_to_readers(evolved.claims))
    homes = {name: parties[name].home_tree(evolved.job) for name in chosen}
    quality = {
        name: _quality(evolved, parties[name], tree, homes[name]) for name, tree in chosen.items()
    }
    return replace(evolved, model=model, quality=quality)


def home_model(evolved: Evolved, parties: Mapping[str, Party]) -> ForestModel:
    """Return the trees that the parties grow alone, as the baseline for joining."""
    trees = {name: party.home_tree(evolved.job).tree for name, party in parties.items()}
    return _model(evolved, parties, trees)


def own_model(party: Party) -> ForestModel | None:
    """Return the tree that a party keeps, for the party itself; None before it has chosen."""
    if party.personal is None or party.chosen_in is None:
        return None
    job = party.chosen_in
    bins = job.binning.bin_of_category if job.binning else None
    schema, trees = party.schema, {party.name: party.personal.tree}
    if bins is None:
        bins = category_bins_of(schema, job.settings.max_bins)
    return _model_of(schema, bins, trees, [party.home(job).binning])


def _open_to_readers(claims: Sequence[PartyClaim]) -> tuple[PartyClaim, ...]:
    """Return the claims if all trees are one model: its readers see exact counts."""
    return tuple(
        replace(
            claim,
            verdict=Verdict.UNPROTECTED.value,
            epsilon=None,
            delta=None,
            text=f"{claim.text.partition(': ')[0]}: {_GATHERED}",
        )
        if claim.view == View.READER.value
        else claim
        for claim in claims
    )


def _model(
    evolved: Evolved, parties: Mapping[str, Party], trees: Mapping[str, FittedTree]
) -> ForestModel:
    binnings: list[Binning] = [parties[name].home(evolved.job).binning for name in trees]
    return _model_of(evolved.model.schema, evolved.model.bin_of_category, trees, binnings)


def _model_of(
    schema: Schema,
    bins: CategoryBins,
    trees: Mapping[str, FittedTree],
    binnings: list[Binning],
) -> ForestModel:
    values = leaf_values(schema, np.ones(len(schema.label.classes or ())), TARGET_BITS)
    unit = 1.0 if schema.label.classes is not None else min(values.step**2, 1e200)
    forest = forest_of(list(trees.values()), binnings, values, unit)
    return ForestModel(NAME, schema, forest, bins, tuple(trees))


def _quality(evolved: Evolved, party: Party, tree: PersonalTree, home: HomeTree) -> Quality:
    """Return what a party knows about its own tree."""
    metric = str(evolved.settings["metric"])
    schema = evolved.model.schema
    step = leaf_values(schema, np.ones(len(schema.label.classes or ())), TARGET_BITS).step
    scores: dict[str, Any] = {
        metric: show_score(metric, tree.score, step),
        f"home_{metric}": show_score(metric, home.score, step),
        "nodes": float(tree.tree.n_decisions),
        "home_nodes": float(home.tree.n_decisions),
        "edit_distance": float("nan") if tree.distance is None else tree.distance,
        "kept_home": float(tree.is_home),
    }
    return Quality("validation", party.home(evolved.job).n_rows, scores)
