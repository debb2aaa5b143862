"""What audits and tests of laws share."""

import pytest

from spinney.privacy import entropy


@pytest.fixture
def seeded(request):
    """Fixed noise: an audit at 95 % may by right refute a tight claim in one run of twenty.

    Slow tests have none.
    """
    if request.node.get_closest_marker("slow"):
        yield
    else:
        with entropy.seeded_for_tests(sum(map(ord, request.node.name))):
            yield
