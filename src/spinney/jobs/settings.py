"""The settings of a job file as those of its protocol, with the estimator's defaults."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from spinney.errors import SettingError
from spinney.estimators.private import privacy_settings
from spinney.jobs.file import JobFile, SettingsConfig
from spinney.protocols.genetic_tree.settings import GeneticSettings, noisy_search
from spinney.protocols.settings import (
    ForestSettings,
    Task,
    as_text,
    refuse_max_leaf_nodes,
)
from spinney.seeds import job_seed
from spinney.tables.schema import Category

_PRIVATE_DEFAULTS: dict[str, Any] = {
    "secure_sum": False,
    "honest": None,
    "epsilon": None,
    "epsilon_per_count": None,
    "mechanism": "noisy_histograms",
    "tree_rows": "disjoint",
    "sample_rate": 0.5,
    "leaf_share": 0.25,
}


EVOLVED: frozenset[str] = frozenset(field.name for field in fields(GeneticSettings)) - {
    "task",
    "seed",
    "job",
    "privacy",
}


VERTICAL: frozenset[str] = frozenset(
    {
        "label_party",
        "matching",
        "labels",
        "label_epsilon",
        "scheme",
        "key_bits",
        "intersect_at",
        "join_parts",
    }
)


SHARED: frozenset[str] = frozenset({"max_depth", "max_bins", "binning"})  # with forests


_RUNNING = frozenset({"random_state", "n_jobs", "secure_sum", "honest", "epsilon"})


REGRESSION_DEFAULTS: dict[str, Any] = {"criterion": "squared_error", "max_features": 1.0}


def forest_settings_of(job: JobFile, classes: tuple[Category, ...] | None) -> ForestSettings:
    """Return the settings of a job; without classes only what can be said without them."""
    task, given, name = cast("Task", job.job.task), job.settings, job.job.name
    if classes is None and isinstance(given.class_weight, dict):
        return forest_settings(given, task, tuple(given.class_weight), name)
    return forest_settings(given, task, classes or (), name)


def forest_settings(
    given: SettingsConfig,
    task: Task,
    classes: tuple[Category, ...] = (),
    name: str = "simulation",
) -> ForestSettings:
    """Return the settings of a forest, checked.

    Parameters
    ----------
    given
        The job file's settings.
    task
        What the forest predicts.
    classes
        The label's classes, in the schema's order.
    name
        The job's; a private job's charges stand under it in every party's ledger.
    """
    chosen = {} if task == "classification" else dict(REGRESSION_DEFAULTS)
    said = _said(given)
    _refuse(said, EVOLVED - SHARED, "a forest")
    _refuse(said, VERTICAL, "a forest over rows")
    weights = said.pop("class_weight", None)
    seed = job_seed(said.pop("random_state"))
    said.pop("n_jobs", None)  # how a forest is grown, not what it is
    private = {key: said.pop(key, default) for key, default in _PRIVATE_DEFAULTS.items()}
    refuse_max_leaf_nodes(said.pop("max_leaf_nodes", None))
    for key in ("thresholds", "label_privacy", "label_scheme"):
        if key in said:
            raise SettingError(f"{key} is for protocol = 'extra_trees' only. Drop it.")
    if given.secure_sum and given.binning == "adaptive":
        raise SettingError(
            "binning = 'adaptive' cannot be masked: the coordinator merges each party's own "
            "histograms. Use 'quantiles' or 'ranges' with secure_sum = true."
        )
    if weights is not None:
        chosen["class_weight"] = weights_of(weights, task, classes)
    privacy = privacy_settings(SimpleNamespace(**private), name)
    if privacy and not privacy.perturbs_input:  # as the estimators do
        said["bootstrap"] = False
        said["binning"] = "ranges" if said.get("binning") in (None, "quantiles") else given.binning
    return ForestSettings(task=task, seed=seed, privacy=privacy, **chosen | said)


def genetic_settings_of(job: JobFile, classes: tuple[Category, ...] | None) -> GeneticSettings:
    """Return the settings of evolved trees, checked."""
    del classes  # nothing is said by class
    said = _said(job.settings)
    _refuse(said, said.keys() - EVOLVED - _RUNNING, "evolved trees")
    given, name = job.settings, job.job.name
    privacy = noisy_search(
        name, given.epsilon, secure_sum=bool(given.secure_sum), honest=given.honest
    )
    if privacy is None and given.delta is not None:
        raise SettingError("delta is where epsilon is read. Drop it, or give epsilon too.")
    own = {key: value for key, value in said.items() if key in EVOLVED}
    own |= {key: as_text(own[key], key) for key in ("size_epsilon", "delta") if key in own}
    return GeneticSettings(
        task=cast("Task", job.job.task),
        seed=job_seed(given.random_state),
        job=name,
        privacy=privacy,
        **own,
    )


def _said(given: SettingsConfig) -> dict[str, Any]:
    return {key: value for key, value in msgspec.structs.asdict(given).items() if value is not None}


def _refuse(said: Mapping[str, Any], keys: AbstractSet[str], what: str) -> None:
    """Raise if a setting of another protocol is given."""
    wrong = sorted(key for key in said if key in keys)
    if wrong:
        raise SettingError(f"{wrong[0]} is not a setting of {what}. Drop it, or change protocol.")


def weights_of(given: Any, task: Task, classes: tuple[Category, ...]) -> Any:
    """Return the class weights in the order of the classes; TOML has them by name."""
    if task == "regression":
        raise SettingError("class_weight is for classification only. Drop it.")
    if isinstance(given, str):
        if given != "balanced":
            raise SettingError(
                f"class_weight must be 'balanced' or a table of weights by class; got {given!r}."
            )
        return given
    names = [str(label) for label in classes]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise SettingError(
            f"class_weight names {unknown[0]!r}, which is not a class. "
            f"The classes are: {', '.join(names)}."
        )
    return tuple(float(given.get(name, 1.0)) for name in names)
