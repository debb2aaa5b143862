"""Job files of extra-trees: their settings, and what they are compared with."""

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from spinney.errors import SettingError
from spinney.estimators.label_privacy import binning_of, privacy_of
from spinney.jobs.file import JobFile
from spinney.jobs.settings import REGRESSION_DEFAULTS, weights_of
from spinney.protocols import extra_trees
from spinney.protocols.settings import (
    ForestSettings,
    Task,
    refuse_max_leaf_nodes,
)
from spinney.seeds import job_seed
from spinney.tables.schema import Category
from spinney.tables.table import Table
from spinney.transport.channel import Answering

_PRIVATE_DEFAULTS: dict[str, Any] = {
    "label_privacy": None,
    "label_scheme": "randomised_response",
    "label_memory": None,  # a party's own business
    "epsilon": None,
    "secure_sum": False,
    "honest": None,
    "tree_rows": "disjoint",
    "sample_rate": 0.5,
    "leaf_share": 0.25,
}


_KNOWN = {field.name for field in fields(ForestSettings)} - {"max_cells"}


_DEFAULTS: dict[str, Any] = {"bootstrap": False, "binning": "magnitudes", "thresholds": "public"}


def extra_settings_of(job: JobFile, classes: tuple[Category, ...] | None) -> ForestSettings:
    """Return the settings of a job; without classes only what can be said without them."""
    task, given = cast("Task", job.job.task), job.settings
    said = {key: value for key, value in msgspec.structs.asdict(given).items() if value is not None}
    weights = said.pop("class_weight", None)
    seed = job_seed(said.pop("random_state"))
    said.pop("n_jobs", None)  # how a forest is grown, not what it is
    refuse_max_leaf_nodes(said.pop("max_leaf_nodes", None))
    private = {key: said.pop(key, default) for key, default in _PRIVATE_DEFAULTS.items()}
    for key in said.keys() - _KNOWN:
        raise SettingError(f"protocol = 'extra_trees' has no setting {key!r}. Drop it.")
    chosen = _DEFAULTS | ({} if task == "classification" else REGRESSION_DEFAULTS) | said
    if private["secure_sum"] and chosen["thresholds"] == "exchanged":
        raise SettingError(
            "thresholds = 'exchanged' cannot be masked: the coordinator compares each party's "
            "smallest and largest values. Use 'public' with secure_sum = true."
        )
    asked = SimpleNamespace(**private, binning=chosen["binning"], criterion=chosen.get("criterion"))
    chosen["binning"] = binning_of(asked)
    if weights is not None:
        names = tuple(weights) if classes is None and isinstance(weights, dict) else classes or ()
        chosen["class_weight"] = weights_of(weights, task, names)
    return ForestSettings(task=task, seed=seed, privacy=privacy_of(asked, job.job.name), **chosen)


def extra_party(table: Table, settings: Any, site: Any) -> Answering:
    """Return a party's side; it pays from its ledger in private jobs."""
    ledger = site.ledger if settings.privacy is not None else None
    return extra_trees.Party(
        table, n_jobs=site.n_jobs, ledger=ledger, data=site.data, memory=site.memory
    )


def extra_baseline(settings: ForestSettings) -> tuple[str, ForestSettings]:
    """Return what extra-trees are held against: the same without noise."""
    return extra_trees.NAME, replace(settings, privacy=None)
