"""A label of each kind, three parties' tables with it, and the forests that grow by sums."""

import pytest

from contracts.forest_jobs import EXTRA, HORIZONTAL, tables_of  # type: ignore[import-not-found]
from spinney import deal_rows


@pytest.fixture(params=["two classes", "three classes", "amount"])
def label(request):
    return request.param


@pytest.fixture
def three_tables(label, ward_table, ward_labels):
    y = ward_labels[label]
    return tables_of(ward_table, y, deal_rows(y, 3, random_state=0), label)


@pytest.fixture(params=[HORIZONTAL, EXTRA], ids=["horizontal forest", "extra-trees"])
def forest(request):
    return request.param
