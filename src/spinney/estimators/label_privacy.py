"""Turn the privacy parameters of extra-trees into the noise settings of a job."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from spinney.privacy.label_memory import LabelMemory
from spinney.protocols.extra_trees.labels import open_memory
from spinney.protocols.extra_trees.settings import LabelNoise
from spinney.tables.table import Table

_PARAMETERS: Final = tuple(LabelNoise.__dataclass_fields__)


def label_noise_of(estimator: Any) -> LabelNoise:
    """Return how an estimator protects labels; a regressor has no schemes for classes."""
    given = {name: getattr(estimator, name) for name in _PARAMETERS}
    return LabelNoise(**given)


def memories(estimator: Any, tables: Mapping[str, Table]) -> dict[str, LabelMemory]:
    """Return the parties' memories of randomised labels, one file per party."""
    if estimator.label_memory is None:
        return {}
    folder = Path(estimator.label_memory)
    return {
        name: open_memory(folder, quote(name, safe=""), table) for name, table in tables.items()
    }
