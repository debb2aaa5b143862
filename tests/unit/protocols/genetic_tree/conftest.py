"""What tests of evolved trees share: a label of each kind, and four parties' tables with it."""

import pytest

from unit.protocols.genetic_tree.evolved_parties import tables_of  # type: ignore[import-not-found]


@pytest.fixture(params=["two classes", "three classes", "amount"])
def label(request):
    return request.param


@pytest.fixture
def tables(label, ward_table, ward_labels):
    return tables_of(ward_table, ward_labels[label], label)
