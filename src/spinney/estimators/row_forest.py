"""The base of all estimators of forests over rows: their parameters and settings."""

from __future__ import annotations

from typing import Any

import numpy as np

from spinney.errors import SettingError
from spinney.estimators.over_rows import RowsEstimator


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
        return self._forest_settings(classes) | {"message_limit": self.message_limit}
