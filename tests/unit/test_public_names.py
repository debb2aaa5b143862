"""The public names: fixed, few, and loaded only when used."""

import subprocess
import sys

import pytest

import spinney

NAMES = {
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
}


def test_the_public_names_are_these():
    assert set(spinney.__all__) == NAMES
    assert set(dir(spinney)) == NAMES
    assert len(spinney.__all__) == len(NAMES)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_public_name_can_be_used(name):
    assert getattr(spinney, name) is not None


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="module 'spinney' has no attribute 'Forest'"):
        _ = spinney.Forest


def test_the_version_is_the_package_s():
    from importlib.metadata import version  # noqa: PLC0415  the one use

    assert spinney.__version__ == version("spinney-trees")


def loaded_by(code, *packages):
    """Return which of these packages a fresh process has loaded after some code."""
    code += f"; import sys; print(*sorted({set(packages)!r} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    return found.stdout.split()


def test_importing_spinney_loads_neither_scikit_learn_nor_numba():
    assert loaded_by("import spinney", "sklearn", "numba", "pandas", "numpy") == []


@pytest.mark.parametrize(
    "name",
    ["HorizontalForestClassifier", "HorizontalForestRegressor", "deal_columns", "deal_rows"],
)
def test_importing_a_name_loads_no_kernels(name):
    """Numba, scikit-learn's forests and DuckDB come with the work that needs them."""
    code = f"from spinney import {name}"
    assert loaded_by(code, "numba", "sklearn.ensemble", "duckdb", "rich", "polars") == []
