"""Decision trees and forests grown together by organisations that may not pool their rows."""

from typing import Any

from spinney.version import __version__

_PUBLIC = (
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
)

__all__ = [*_PUBLIC, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that `spinney --help` need not load scikit-learn."""
    if name in _PUBLIC:
        from spinney import public  # noqa: PLC0415

        return getattr(public, name)
    raise AttributeError(f"module 'spinney' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
