"""The public names of `spinney`, from where each is defined."""

from spinney.estimators.extra_trees import ExtraTreesClassifier, ExtraTreesRegressor
from spinney.estimators.genetic_tree import GeneticTreeClassifier, GeneticTreeRegressor
from spinney.estimators.horizontal_forest import (
    HorizontalForestClassifier,
    HorizontalForestRegressor,
)
from spinney.estimators.models import load_model
from spinney.estimators.private_forest import PrivateForestClassifier
from spinney.estimators.private_tree import PrivateTreeClassifier
from spinney.estimators.vertical_forest import VerticalForestClassifier, VerticalForestRegressor
from spinney.report.report import load_report
from spinney.tables.deal import deal_columns, deal_rows

__all__ = [
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "GeneticTreeClassifier",
    "GeneticTreeRegressor",
    "HorizontalForestClassifier",
    "HorizontalForestRegressor",
    "PrivateForestClassifier",
    "PrivateTreeClassifier",
    "VerticalForestClassifier",
    "VerticalForestRegressor",
    "deal_columns",
    "deal_rows",
    "load_model",
    "load_report",
]
