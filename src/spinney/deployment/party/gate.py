"""The party's gate: it judges every attempt that the coordinator offers, before anything is opened.

A job is data: code never travels. The gate checks who signed the job for this run, the party's
policy, how many jobs began within an hour, that an accepted job has not changed, and that the
ledger goes on from where it ended. It does not open the table.
"""

import logging
from typing import Final

from spinney.deployment.identity import KitIdentity
from spinney.deployment.job import PROPOSE, Agreed, Attempt, words_signed
from spinney.deployment.party.admission import Accepted, count_job
from spinney.deployment.party.config import PartyFile
from spinney.deployment.party.pins import Pins
from spinney.deployment.party.policy import check_policy
from spinney.deployment.party.process import RunParty
from spinney.errors import PolicyError
from spinney.transport.remote.frames import Offer

_LOG: Final = logging.getLogger("spinney.gate")


def admit(party: PartyFile, offer: Offer) -> tuple[RunParty, bytes]:
    """Return the party's side of an attempt and where its ledger ends; raise if it refuses."""
    attempt = Attempt(offer.run, offer.attempt, offer.present)
    name, signed = party.party.name, words_signed(offer.run, offer.job)
    asker = KitIdentity(party.kit).lead_who_signed(offer.certificate, offer.signature, signed)
    if asker in party.policy.peers:  # who has the authority's key can sign for any name
        Pins(name, party.policy.peers).check(asker, offer.certificate)
    job = Agreed.of_bytes(offer.job)
    _require_own(name, job, attempt)
    if job.kind != PROPOSE:  # a proposal gets yes or no as its answer instead
        check_policy(name, party.policy, job, asker)
        Accepted(party.records).require_same_job(job)
    elif party.policy.askers and asker not in party.policy.askers:
        check_policy(name, party.policy, job, asker)  # raises
    count_job(party.records, name, party.policy.jobs_per_hour)  # only what is allowed counts
    side = RunParty(party, job, attempt.run, attempt.number, asker=asker, present=attempt.present)
    try:
        return side, side.heads.join(offer.heads)
    except BaseException:
        side.close()
        raise


def _require_own(name: str, job: Agreed, attempt: Attempt) -> None:
    """Refuse a job that is not this party's, or that goes on with too few of its parties."""
    present = set(attempt.present)
    if name not in present or len(present) != len(attempt.present):
        raise PolicyError("The attempt does not name this party once.")
    if not present <= set(job.parties) or len(present) < job.quorum:
        raise PolicyError("The attempt is not among the parties that the job names.")
