"""A party's budget: what is left for the life of its data set, and whether a job fits into it.

`epsilon_total` limits every unit. A job's epsilon usually counts a record that is added or removed.
To replace a record is to remove one and to add one, so such a job of epsilon e counts as 2 e for a
record that is replaced and for its label: three jobs of epsilon 1 need `epsilon_total = 6`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from spinney.deployment.job import CHECK, EVALUATE, PREDICT, Agreed
from spinney.deployment.party.config import PartyFile
from spinney.deployment.party.heads import require_whole
from spinney.errors import PolicyError
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.privacy.scopes import Budget
from spinney.tables.holding import Holding
from spinney.tables.table import Table


def life_budgets(party: PartyFile) -> list[Budget]:
    """Return the lifetime budgets that the party's policy sets for its data set."""
    total, delta = party.policy.epsilon_total, party.policy.delta_total
    if total is None:
        return []
    # In every unit: a unit without a budget would never run out.
    if delta is None:
        return [Budget.pure(total, unit) for unit in Unit]
    return [Budget.zcdp(total, delta, unit) for unit in Unit]


def left_per_unit(party: PartyFile) -> dict[Unit, Fraction]:
    """Return what all later jobs may cost, by unit; empty if nothing limits them."""
    with _opened(party) as ledger:
        return ledger.all_left_for_life(party.ledger.data, life_budgets(party))


def check_budget(party: PartyFile, job: Agreed, table: Table | Holding) -> None:
    """Raise `PolicyError` if the ledger would refuse to pay for a whole job; charge nothing.

    What is left is in the local part of the error, because it says what other jobs have spent.
    """
    if job.kind in (EVALUATE, PREDICT, CHECK):  # an evaluation pays when it is asked
        return
    settings, n_parties = job.protocol_settings(), len(job.parties)
    charges = job.spec.charges(table, settings, n_parties, party.ledger.data)
    if charges is None:
        return
    with _opened(party) as ledger:
        short = ledger.shortfall_ahead(charges.terms, charges.spends, life_budgets(party))
    if short is not None:
        asked, left = short.amounts
        raise PolicyError(
            f"Job {job.name!r} would cost {asked} for {short.unit}; the policy of "
            f"{party.party.name!r} allows less for the rest of the data set's life (rule "
            "'epsilon_total'). Lower the job's epsilon, or ask the party to raise epsilon_total.",
            local=f"Left: {left}.",
        )


@contextmanager
def _opened(party: PartyFile) -> Iterator[Ledger]:
    """Open the party's ledger to read; a party without one has spent nothing."""
    require_whole(party)
    path = party.ledger_file
    ledger = Ledger.open(path) if path.exists() else Ledger.in_memory(party.party.name)
    try:
        yield ledger
    finally:
        ledger.close()
