"""The settings of a horizontal forest: those of a job, and those of a job file."""

from typing import Final

import msgspec

from spinney.errors import SettingError
from spinney.protocols.row_forest.settings import NoiseParameters
from spinney.protocols.settings import ForestSettings, forest_settings
from spinney.protocols.spec import JobFacts, JobSettings

NAME: Final = "horizontal_forest"
Settings = ForestSettings
_NOISE: Final = tuple(NoiseParameters.__dataclass_fields__)


class ForestJobSettings(JobSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The [settings] of a job file that grows a horizontal forest."""

    n_estimators: int | None = None
    criterion: str | None = None
    max_depth: int | None = None
    min_samples_split: int | float | None = None
    min_samples_leaf: int | float | None = None
    min_weight_fraction_leaf: float | None = None
    min_impurity_decrease: float | None = None
    max_features: int | float | str | None = None
    max_bins: int | None = None
    max_cells: int | None = None
    binning: str | None = None
    bootstrap: bool | None = None
    class_weight: str | dict[str, float] | None = None
    oob_score: bool | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    epsilon: int | float | None = None
    epsilon_per_count: int | float | None = None
    mechanism: str | None = None
    tree_rows: str | None = None
    sample_rate: int | float | None = None
    leaf_share: int | float | None = None
    message_limit: int | None = None
    max_leaf_nodes: int | None = None  # accepted only to raise an error with the reason
    random_state: int = 0
    n_jobs: int | None = None


def settings_of(given: ForestJobSettings, facts: JobFacts) -> ForestSettings:
    """Return the checked settings of a job file; without classes, check what is possible."""
    said = {k: v for k, v in msgspec.structs.asdict(given).items() if v is not None}
    noise = NoiseParameters(**{key: said.pop(key) for key in _NOISE if key in said})
    if given.secure_sum and given.binning == "adaptive":
        raise SettingError(
            "binning = 'adaptive' cannot be masked: the coordinator merges each party's own "
            "histograms. Use 'quantiles' or 'ranges' with secure_sum = true."
        )
    privacy = noise.privacy(facts.name)
    if privacy and not privacy.perturbs_input:  # as in the estimators
        said["bootstrap"] = False
        said["binning"] = "ranges" if said.get("binning") in (None, "quantiles") else given.binning
    return forest_settings(said, facts.task, facts.classes, privacy=privacy)
