"""The labels of a vertical job at the party that holds them: true, or randomised once.

With `label_epsilon` the label party randomises every label before anything leaves it, pays for that
once, and keeps the result with its ledger. Everything that follows (gains, trees, leaf values and
scores) uses the randomised labels and costs nothing more: anyone who sees all of it learns no label
better than epsilon allows (label differential privacy). Classes: k-ary randomised response.
Amounts: discrete Laplace noise on a grid of 4,095 steps over the declared range, clipped to it.

It does not protect that a row is present, or which rows are together in a node.
"""

from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Final

import numpy as np

from spinney.errors import PolicyError
from spinney.privacy.accounting import JobTerms as Terms
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import DiscreteLaplace, RandomisedResponse
from spinney.privacy.release import Exact
from spinney.privacy.scopes import Budget, Disclosure, Protection, Question, Spend
from spinney.protocols.accounts.account import read_fact_disclosure
from spinney.protocols.columns.job import ColumnsJob, Target
from spinney.protocols.settings import fraction_of
from spinney.typing import Integers

_STEPS: Final = 2**12 - 1


_ROWS: Final = Disclosure(
    "that a row is there, and which rows stand together in a node",
    Protection.UNPROTECTED,
    "every party moves all rows, level by level",
    (Unit.RECORD_ADD_REMOVE,),
)


def label_noise(job: ColumnsJob) -> RandomisedResponse | DiscreteLaplace:
    """Return the mechanism that randomises a job's labels."""
    return noise_of(job.label_epsilon or "", job.n_classes)


def noise_of(label_epsilon: str, n_classes: int) -> RandomisedResponse | DiscreteLaplace:
    """Return the mechanism that randomises labels; 0 classes for regression."""
    epsilon = fraction_of(label_epsilon, "label_epsilon")
    if n_classes:
        return RandomisedResponse(epsilon, n_classes, Unit.LABEL)
    return DiscreteLaplace(epsilon, Fraction(_STEPS), Unit.LABEL)


def label_terms(
    job: str, data: str, n_parties: int, noise: RandomisedResponse | DiscreteLaplace
) -> Terms:
    """Return the terms on which the label party's ledger opens a job."""
    return Terms(job, data, n_parties, 1, (Budget.pure(noise.epsilon, Unit.LABEL),))


def label_spend(noise: RandomisedResponse | DiscreteLaplace, n_rows: int) -> Spend:
    """Return the price of all labels."""
    return Spend("every label, randomised", noise, n_values=n_rows)


@dataclass(frozen=True)
class LabelAccount:
    """The account from which the label party pays.

    Attributes
    ----------
    ledger, data
        The ledger that records charges, and the name of the data set whose account they debit.
    read_facts
        The label's facts that were read from its rows, in a simulation: no epsilon holds then.
    rows
        Identifies the rows, in the job's order, if that order changes from run to run: it finds the
        randomised labels again. None: the order of rows never changes.
    """

    ledger: Ledger | None = None
    data: str | None = None
    read_facts: tuple[str, ...] = ()
    rows: tuple[str, ...] | None = None


def labels_to_use(job: ColumnsJob, target: Target, account: LabelAccount) -> Target:
    """Return the labels that a job may use; with `label_epsilon`, randomised and paid for once.

    A party with a ledger never gives away true labels. A party without one cannot pay.
    """
    ledger = account.ledger
    if job.label_epsilon is None and ledger is None:
        return target
    if job.label_epsilon is None:
        raise PolicyError(
            "This party has a ledger and gives away only randomised labels. Set label_epsilon. "
            "Nothing was released."
        )
    if ledger is None:
        raise PolicyError(
            "label_epsilon is a cost, and the label party has no ledger to pay from. Give it one."
        )
    return _randomised(job, target, ledger, account)


def _randomised(job: ColumnsJob, target: Target, ledger: Ledger, account: LabelAccount) -> Target:
    noise = label_noise(job)
    fingerprint = account.data or sha256(np.ascontiguousarray(target).tobytes()).hexdigest()
    terms = label_terms(job.name, fingerprint, job.n_parties, noise)
    spend = label_spend(noise, job.n_rows)
    ledger.open_job(terms)
    if account.read_facts:
        told = [read_fact_disclosure(fact, Unit.LABEL) for fact in account.read_facts]
        ledger.disclose(Question.of(job.name, 0, b"public facts"), told)
    if not ledger.spent(job.name, Unit.LABEL):
        ledger.check(job.name, [spend])
    codes, order, known = _codes(job, target), np.arange(len(target)), b""
    if account.rows is not None:
        order = np.array(sorted(order, key=account.rows.__getitem__), np.int64)
        known = sha256(repr(sorted(account.rows)).encode()).digest()

    def draw(charges: tuple[object, ...]) -> bytes:
        (charge,) = charges
        released = noise.release(Exact(codes[order]), charge).values  # type: ignore[arg-type]
        return released.astype("<i8").tobytes()

    question = Question.of(job.name, 0, job.digest.encode() + known)
    drawn = np.empty(len(target), np.int64)
    drawn[order] = np.frombuffer(ledger.answer(question, [spend], draw, [_ROWS]), "<i8")
    if job.n_classes:
        classes: Target = drawn.astype(target.dtype)
        return classes
    steps = drawn.clip(0, _STEPS) / _STEPS
    amounts: Target = np.rint(steps * (2**job.target_bits - 1)).astype(target.dtype)
    return amounts


def _codes(job: ColumnsJob, target: Target) -> Integers:
    codes = target if job.n_classes else np.rint(target / (2**job.target_bits - 1) * _STEPS)
    whole: Integers = codes.astype(np.int64)
    return whole
