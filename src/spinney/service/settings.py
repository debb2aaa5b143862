"""The settings of a job file as those of its protocol, with the estimator's defaults."""

from typing import Any, cast

import msgspec

from spinney.errors import SettingError
from spinney.protocols.settings import ForestSettings, Task, refuse_max_leaf_nodes
from spinney.seeds import job_seed
from spinney.service.config import JobFile, SettingsConfig
from spinney.tables.schema import Category

_REGRESSION_DEFAULTS: dict[str, Any] = {"criterion": "squared_error", "max_features": 1.0}


def forest_settings_of(job: JobFile, classes: tuple[Category, ...] | None) -> ForestSettings:
    """Return the settings of a job; without classes only what can be said without them."""
    task, given = cast("Task", job.job.task), job.settings
    if classes is None and isinstance(given.class_weight, dict):
        return forest_settings(given, task, tuple(given.class_weight))
    return forest_settings(given, task, classes or ())


def forest_settings(
    given: SettingsConfig, task: Task, classes: tuple[Category, ...] = ()
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
    """
    chosen = {} if task == "classification" else dict(_REGRESSION_DEFAULTS)
    said = {key: value for key, value in msgspec.structs.asdict(given).items() if value is not None}
    weights = said.pop("class_weight", None)
    seed = job_seed(said.pop("random_state"))
    for how in ("n_jobs", "secure_sum"):  # how a forest is grown, not what it is
        said.pop(how, None)
    refuse_max_leaf_nodes(said.pop("max_leaf_nodes", None))
    if given.secure_sum and given.binning == "adaptive":
        raise SettingError(
            "binning = 'adaptive' cannot be masked: the coordinator merges each party's own "
            "histograms. Use 'quantiles' or 'ranges' with secure_sum = true."
        )
    if weights is not None:
        chosen["class_weight"] = _weights(weights, task, classes)
    return ForestSettings(task=task, seed=seed, **chosen | said)


def _weights(given: Any, task: Task, classes: tuple[Category, ...]) -> Any:
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
