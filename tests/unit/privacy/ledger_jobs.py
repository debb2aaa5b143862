"""Questions, spends and noise of a job in a ledger, for tests."""

from fractions import Fraction

import numpy as np

from spinney.privacy.budget import Unit
from spinney.privacy.mechanisms import DiscreteLaplace
from spinney.privacy.release import Exact
from spinney.privacy.scopes import (
    Question,
    Spend,
)

RECORD = Unit.RECORD_ADD_REMOVE
NOISE = DiscreteLaplace(Fraction(1, 4))
COUNTS = Exact(np.arange(8))


def ask(round_, ask_=b"level"):
    return Question.of("q3", round_, ask_)


def level(n, noise=NOISE, **more):
    return Spend(f"level {n}", noise, **more)


def noised(charges):
    return NOISE.release(COUNTS, charges[0]).values.tobytes()
