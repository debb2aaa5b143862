"""Decision trees and forests grown together by organisations that may not pool their rows."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME_OF_NAME = {
    "ExtraTreesClassifier": "spinney.estimators.extra_trees",
    "ExtraTreesRegressor": "spinney.estimators.extra_trees",
    "GeneticTreeClassifier": "spinney.estimators.genetic_tree",
    "GeneticTreeRegressor": "spinney.estimators.genetic_tree",
    "HorizontalForestClassifier": "spinney.estimators.horizontal_forest",
    "HorizontalForestRegressor": "spinney.estimators.horizontal_forest",
    "PrivateForestClassifier": "spinney.estimators.private_forest",
    "PrivateTreeClassifier": "spinney.estimators.private_tree",
    "VerticalForestClassifier": "spinney.estimators.vertical_forest",
    "VerticalForestRegressor": "spinney.estimators.vertical_forest",
    "deal_columns": "spinney.tables.deal",
    "deal_rows": "spinney.tables.deal",
    "load_model": "spinney.estimators.models",
    "load_report": "spinney.report.report",
}

__all__ = [*sorted(_HOME_OF_NAME), "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `spinney --help` need not load scikit-learn."""
    if name in _HOME_OF_NAME:
        return getattr(import_module(_HOME_OF_NAME[name]), name)
    raise AttributeError(f"module 'spinney' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
