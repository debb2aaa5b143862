"""Job files of private trees and forests: their settings, and what they are compared with."""

from typing import Any

import msgspec

from spinney.errors import SettingError
from spinney.jobs.file import JobFile
from spinney.protocols import horizontal_forest, private_forest, private_tree
from spinney.protocols.settings import ForestSettings, PrivacySettings, as_text
from spinney.seeds import job_seed
from spinney.tables.schema import Category

_ANY = ("epsilon", "secure_sum", "honest", "shrinkage", "message_limit", "random_state", "n_jobs")


_TREE = (
    "method",
    "max_depth",
    "min_samples_leaf",
    "n_bins",
    "leaf_share",
    "bounds_share",
    "n_rows",
)


_FOREST = ("n_estimators", "max_depth")


def tree_settings_of(
    job: JobFile,
    classes: tuple[Category, ...] | None,  # noqa: ARG001  as all protocols
) -> private_tree.Settings:
    """Return the settings of a job that grows a private tree."""
    said = _said(job, _TREE)
    if "bounds_share" in said:
        said["bounds_share"] = as_text(said["bounds_share"], "bounds_share")
    said.pop("leaf_share", None)
    return private_tree.Settings(privacy=_privacy(job), **said)


def forest_settings_of(
    job: JobFile,
    classes: tuple[Category, ...] | None,  # noqa: ARG001  as all protocols
) -> private_forest.Settings:
    """Return the settings of a job that counts the leaves of a random forest."""
    seed = job_seed(job.settings.random_state)
    return private_forest.Settings(privacy=_privacy(job), seed=seed, **_said(job, _FOREST))


def tree_baseline(settings: private_tree.Settings) -> tuple[str, ForestSettings]:
    """Return what a private tree is held against: an ordinary one of the same depth."""
    return horizontal_forest.NAME, ForestSettings(
        task="classification",
        n_estimators=1,
        max_depth=settings.max_depth,
        min_samples_leaf=settings.min_samples_leaf,
        max_features=None,
        bootstrap=False,
    )


def forest_baseline(settings: private_forest.Settings) -> tuple[str, ForestSettings]:
    """Return what a private forest is held against: an ordinary one of the same size."""
    return horizontal_forest.NAME, ForestSettings(
        task="classification",
        n_estimators=settings.n_estimators,
        max_depth=settings.max_depth,
        seed=settings.seed,
    )


def _privacy(job: JobFile) -> PrivacySettings:
    given = job.settings
    if given.epsilon is None:
        raise SettingError(
            f"protocol = {job.job.protocol!r} needs epsilon, the budget of the whole job. "
            "Give it in [settings]."
        )
    if given.honest is not None and given.secure_sum is False:
        raise SettingError("honest is for secure sums; drop it, or secure_sum = false.")
    return PrivacySettings(
        job=job.job.name,
        epsilon=as_text(given.epsilon, "epsilon"),
        tree_rows="all",
        leaf_share=as_text(0.5 if given.leaf_share is None else given.leaf_share, "leaf_share"),
        in_shares=given.secure_sum is not False,
        honest=given.honest,
    )


def _said(job: JobFile, known: tuple[str, ...]) -> dict[str, Any]:
    """Return what the job file says of the settings that a protocol knows; refuse others."""
    protocol = job.job.protocol
    if job.job.task != "classification":
        raise SettingError(
            f"protocol = {protocol!r} tells classes apart; drop task = 'regression'."
        )
    said = {k: v for k, v in msgspec.structs.asdict(job.settings).items() if v is not None}
    for name in said:
        if name not in (*_ANY, *known):
            raise SettingError(
                f"protocol = {protocol!r} has no setting {name!r}. It has: "
                f"{', '.join((*known, *_ANY))}."
            )
    kept = (*known, "shrinkage", "message_limit")
    return {name: value for name, value in said.items() if name in kept}
