"""The base of all estimators of forests over rows: their parameters and settings."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from spinney.errors import SettingError
from spinney.estimators.over_rows import RowsEstimator
from spinney.seeds import job_seed

_SETTINGS: Final = (  # parameters that a job takes unchanged
    "n_estimators",
    "criterion",
    "max_depth",
    "min_samples_split",
    "min_samples_leaf",
    "min_weight_fraction_leaf",
    "min_impurity_decrease",
    "max_features",
    "max_bins",
    "oob_score",
    "message_limit",
)


class RowForest(RowsEstimator):
    """A forest over parties that hold different rows of the same columns."""

    def _checked(self) -> None:
        """Raise if parameters do not fit together."""
        if not isinstance(self.secure_sum, bool | np.bool_):
            raise SettingError(f"secure_sum must be True or False; got {self.secure_sum!r}.")
        from spinney.protocols.settings import refuse_max_leaf_nodes  # noqa: PLC0415  loaded late

        refuse_max_leaf_nodes(self.max_leaf_nodes)

    def _shared_settings(self, classes: tuple[Any, ...]) -> dict[str, Any]:
        """Return the settings that are common to all forests over rows."""
        self._checked()
        weights = self._class_weights(classes) if self._is_classifier else None
        return {name: getattr(self, name) for name in _SETTINGS} | {
            "task": "classification" if self._is_classifier else "regression",
            "class_weight": weights,
            "seed": job_seed(self.random_state),
        }
