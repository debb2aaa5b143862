"""Decision trees and forests grown together by organisations that may not pool their rows."""

from typing import Any

from spinney.version import __version__

__all__ = [
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "GeneticTreeClassifier",
    "GeneticTreeRegressor",
    "HorizontalBoostingClassifier",
    "HorizontalBoostingRegressor",
    "HorizontalForestClassifier",
    "HorizontalForestRegressor",
    "PrivateBoostingClassifier",
    "PrivateBoostingRegressor",
    "PrivateForestClassifier",
    "PrivateTreeClassifier",
    "Schema",
    "VerticalBoostingClassifier",
    "VerticalBoostingRegressor",
    "VerticalForestClassifier",
    "VerticalForestRegressor",
    "__version__",
    "deal_columns",
    "deal_rows",
    "load_model",
    "load_report",
]


def __getattr__(name: str) -> Any:  # noqa: C901, PLR0911, PLR0912  one place for each
    """Import a public name on first use, so that a command loads no more than it needs."""
    # ruff: noqa: PLC0415
    match name:
        case "ExtraTreesClassifier" | "ExtraTreesRegressor":
            from spinney.estimators import extra_trees

            return getattr(extra_trees, name)
        case "GeneticTreeClassifier" | "GeneticTreeRegressor":
            from spinney.estimators import genetic_tree

            return getattr(genetic_tree, name)
        case "HorizontalBoostingClassifier" | "HorizontalBoostingRegressor":
            from spinney.estimators import horizontal_boosting

            return getattr(horizontal_boosting, name)
        case "HorizontalForestClassifier" | "HorizontalForestRegressor":
            from spinney.estimators import horizontal_forest

            return getattr(horizontal_forest, name)
        case "PrivateBoostingClassifier" | "PrivateBoostingRegressor":
            from spinney.estimators import private_boosting

            return getattr(private_boosting, name)
        case "PrivateForestClassifier":
            from spinney.estimators import private_forest

            return getattr(private_forest, name)
        case "PrivateTreeClassifier":
            from spinney.estimators import private_tree

            return getattr(private_tree, name)
        case "Schema":
            from spinney.tables import schema

            return schema.Schema
        case "VerticalBoostingClassifier" | "VerticalBoostingRegressor":
            from spinney.estimators import vertical_boosting

            return getattr(vertical_boosting, name)
        case "VerticalForestClassifier" | "VerticalForestRegressor":
            from spinney.estimators import vertical_forest

            return getattr(vertical_forest, name)
        case "deal_columns" | "deal_rows":
            from spinney.tables import deal

            return getattr(deal, name)
        case "load_model":
            from spinney.estimators import models

            return getattr(models, name)
        case "load_report":
            from spinney.report import report

            return getattr(report, name)
    raise AttributeError(f"module 'spinney' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
