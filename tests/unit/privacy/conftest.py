"""A ledger with one job open."""

from contextlib import closing

import pytest

from spinney.privacy.accounting import JobTerms
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import Budget


@pytest.fixture
def ledger():
    with closing(Ledger.in_memory()) as made:
        made.open_job(JobTerms.agreed("q3", "data", 5, [Budget.pure(1)]))
        yield made
