"""From the privacy parameters of extra-trees to the settings of a job."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from spinney.errors import SettingError
from spinney.privacy.label_memory import LabelMemory
from spinney.protocols.extra_trees.labels import opened_memory
from spinney.protocols.settings import PrivacySettings, as_text
from spinney.tables.table import Table

_EPSILON = 2  # of a label, unless given


def privacy_of(estimator: Any, job: str | None = None) -> PrivacySettings | None:
    """Return the privacy of a job, a simulated one under a name of its own; None without any."""
    name = job or f"simulation {uuid4()}"
    match estimator.label_privacy:
        case None:
            _refuse(estimator, "epsilon", "label_privacy='local' or 'laplace'")
            _refuse(estimator, "label_memory", "label_privacy='local'")
            return None
        case "local":
            return _local(estimator, name)
        case "laplace":
            _refuse(estimator, "label_memory", "label_privacy='local'")
            return _laplace(estimator, name)
    raise SettingError(
        f"label_privacy must be None or 'local' or 'laplace'; got {estimator.label_privacy!r}."
    )


def _local(estimator: Any, name: str) -> PrivacySettings:
    if estimator.criterion == "squared_error":
        raise SettingError(
            "label_privacy='local' randomises classes, and a regressor has none. Use "
            "label_privacy='laplace'."
        )
    epsilon = estimator.epsilon
    if epsilon is None and estimator.label_scheme != "bloom":
        epsilon = _EPSILON
    return PrivacySettings(
        job=name,
        mechanism="randomised_labels",
        label_scheme=estimator.label_scheme,
        epsilon=None if epsilon is None else as_text(epsilon, "epsilon"),
    )


def _laplace(estimator: Any, name: str) -> PrivacySettings:
    if estimator.epsilon is None:
        raise SettingError(
            "label_privacy='laplace' needs epsilon, the budget of the whole forest, such as 1.0."
        )
    return PrivacySettings(
        job=name,
        epsilon=as_text(estimator.epsilon, "epsilon"),
        tree_rows=estimator.tree_rows,
        sample_rate=as_text(estimator.sample_rate, "sample_rate"),
        leaf_share=as_text(estimator.leaf_share, "leaf_share"),
        in_shares=bool(estimator.secure_sum),
        honest=estimator.honest,
    )


def binning_of(estimator: Any) -> Any:
    """Return the scale of cuts: with noise on counts only that for which nothing is counted."""
    counted = estimator.label_privacy == "laplace" and estimator.binning == "magnitudes"
    return "ranges" if counted else estimator.binning


def memories(estimator: Any, tables: Mapping[str, Table]) -> dict[str, LabelMemory]:
    """Return the parties' memories of randomised labels, each in a file of its own."""
    if estimator.label_memory is None:
        return {}
    folder = Path(estimator.label_memory)
    return {
        name: opened_memory(folder, quote(name, safe=""), table) for name, table in tables.items()
    }


def _refuse(estimator: Any, name: str, needed: str) -> None:
    if getattr(estimator, name) is not None:
        raise SettingError(f"{name}={getattr(estimator, name)!r} needs {needed}.")
