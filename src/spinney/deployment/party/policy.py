"""A party's policy. A refusal of a job names the rule, never the data."""

from fractions import Fraction
from typing import Any

import msgspec

from spinney.deployment.job import CHECK, EVALUATE, PROPOSE, TRAIN, Agreed
from spinney.deployment.party.pins import check_pins
from spinney.errors import PolicyError, SettingError
from spinney.jobs.careful import FEWEST_PARTIES
from spinney.privacy.budget import probability
from spinney.protocols.release_terms import EXACT, Hardening
from spinney.protocols.table_fit import ROUNDED_TO
from spinney.report.audit_limits import AuditLimits
from spinney.report.words import some
from spinney.tables.schema import join_words


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A party's rules, checked before its table is opened. A rule that is not set has no effect.

    Attributes
    ----------
    protocols
        The protocols that may run.
    min_parties
        The fewest parties of a job, and the fewest that must answer every question. None: 3 in
        jobs over rows, whose sums hide one party among the others, and 2 in jobs over columns.
    secure_sum
        Whether sums must be masked (secure aggregation).
    epsilon_per_job
        The largest epsilon of a job, as the job states it; if set, jobs without noise are refused.
    epsilon_total
        The largest total epsilon of all jobs on the data set, in every unit: for a record added or
        removed, for one that is replaced, and for a label. A job of epsilon e that counts records
        added or removed costs 2 e for one that is replaced and for its label (see `party.budget`).
    delta_total
        The delta at which `epsilon_total` is read: the data set's life then counts in zCDP, and may
        hold jobs with delta beside pure ones. None: `epsilon_total` is pure, and jobs with delta
        are refused.
    trust_coordinator
        Whether a job within those limits may nevertheless show the coordinator exact counts.
    min_samples_leaf
        The fewest rows in a leaf, over all parties.
    min_own_rows
        In exact forests over rows: the party counts itself out of nodes in which it has some rows
        of a class, but fewer than this (see `trees.own_rows`); it refuses other exact jobs over
        rows, and forests whose trees all count the same rows. Jobs with noise need no such rule,
        and in jobs over columns all parties hold all rows. 0: it is counted everywhere.
    exact_counts
        Whether a model that leaves a run may keep exact counts; see `terms`.
    never
        Columns that no job may use.
    askers
        The people who may start jobs, by the names in their certificates.
    peers
        The other parties, by name, with the fingerprints of their certificates; if given, no job
        may name other parties, and none may show another certificate (see `party.pins`).
    jobs_per_hour
        The most jobs that may begin within an hour, including proposals.
    max_match_ids
        The most ids about which another party may ask, in one run, whether they are here; None: ten
        times as many as the table has itself.
    audit
        What an audit may find in a model that leaves (see `report.audit_limits`).
    """

    protocols: tuple[str, ...] | None = None
    min_parties: int | None = None
    secure_sum: bool = False
    epsilon_per_job: float | None = None
    epsilon_total: float | None = None
    trust_coordinator: bool = False
    min_samples_leaf: int = 1
    min_own_rows: int = 0
    exact_counts: bool = False
    never: tuple[str, ...] = ()
    askers: tuple[str, ...] | None = None
    peers: dict[str, str] = {}
    jobs_per_hour: int = 60
    max_match_ids: int | None = None
    audit: AuditLimits | None = None
    delta_total: float | None = None

    def __post_init__(self) -> None:
        for name in ("min_parties", "min_samples_leaf", "jobs_per_hour"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise SettingError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.min_own_rows < 0:
            raise SettingError(f"min_own_rows must be at least 0; got {self.min_own_rows}.")
        if self.max_match_ids is not None and self.max_match_ids < 0:
            raise SettingError(f"max_match_ids must be at least 0; got {self.max_match_ids}.")
        for name in ("epsilon_per_job", "epsilon_total"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise SettingError(f"{name} must be a finite number above 0; got {value}.")
        if self.delta_total is not None:
            probability(self.delta_total, "delta_total")
            if self.epsilon_total is None:
                raise SettingError(
                    "delta_total is the delta at which epsilon_total is read. Give epsilon_total "
                    "too, or drop it."
                )
        check_pins(self.peers)
        self._check_audit()

    def _check_audit(self) -> None:
        """Raise if the limits of an audit contradict the other rules."""
        most = None if self.audit is None else self.audit.most_epsilon
        claimed = self.epsilon_per_job
        if most is not None and claimed is not None and most > claimed:
            raise SettingError(
                f"[policy.audit] contradicts [policy]: most_epsilon = {most:g} lets runs show more "
                f"than epsilon_per_job = {claimed:g} lets a job claim. Lower most_epsilon."
            )

    @property
    def terms(self) -> Hardening:
        """The terms on which a model may leave a run of this party."""
        return msgspec.structs.replace(
            EXACT, smallest_leaf=self.min_samples_leaf, exact_counts=self.exact_counts
        )

    def fewest_parties(self, job: Agreed) -> int:
        """Return the fewest parties that a job must have, and keep."""
        if self.min_parties is not None:
            return self.min_parties
        return FEWEST_PARTIES if job.spec.divides == "rows" else 2


def rules_in_words(policy: Policy) -> dict[str, str]:
    """Return every rule and what it says; of pins, whose certificates they are."""
    told: dict[str, str] = {}
    for name in Policy.__struct_fields__:
        value = getattr(policy, name)
        if name == "audit":
            told |= _limits_in_words(value)
        elif name == "min_parties" and value is None:
            told[name] = f"not set: {FEWEST_PARTIES} in jobs over rows, 2 over columns"
        elif value is None or value in ((), {}):
            told[name] = "not set"
        elif isinstance(value, bool):
            told[name] = "yes" if value else "no"
        else:
            told[name] = join_words(value) if isinstance(value, tuple | dict) else f"{value}"
    return told


def _limits_in_words(audit: AuditLimits | None) -> dict[str, str]:
    """Return the limits of the audit before a model leaves."""
    if audit is None:
        return {"audit": "not set: models leave without an audit"}
    limits = msgspec.to_builtins(audit)
    return {f"audit, {name}": f"{value}" for name, value in limits.items() if value is not None}


def check_policy(party: str, policy: Policy, job: Agreed, asker: str | None) -> None:
    """Raise `PolicyError` for the first rule that a job breaks."""
    if party not in job.parties:
        raise _refused(party, job, "parties", "names other parties", "does not take part")
    if policy.protocols is not None and job.protocol not in policy.protocols:
        allowed = ", ".join(policy.protocols) or "none"
        raise _refused(party, job, "protocols", f"asks for {job.protocol}", f"allows: {allowed}")
    _check_parties(party, policy, job)
    strangers = [name for name in job.parties if name not in (*policy.peers, party)]
    if policy.peers and strangers:
        asked, allowed = f"names the party {strangers[0]!r}", "pins others ([policy.peers])"
        raise _refused(party, job, "peers", asked, allowed)
    if policy.secure_sum and not job.is_masked:
        raise _refused(party, job, "secure_sum", "does not mask its sums", "requires masked sums")
    settings = job.protocol_settings()
    _check_leaf(party, policy, job, settings)
    _check_own_rows(party, policy, job, settings)
    _check_epsilon(party, policy, job, settings)
    if job.release.exact_counts and not policy.exact_counts:
        asked, allowed = "lets exact counts leave with the model", "allows only rounded counts"
        raise _refused(party, job, "exact_counts", asked, allowed)
    used = job.schema.columns or ()
    barred = [name for name in policy.never if name in (*used, job.schema.label)]
    if barred:
        raise _refused(party, job, "never", f"uses {barred[0]!r}", "never allows that column")
    if policy.never and not used and job.spec.divides == "rows":
        raise _refused(
            party, job, "never", "does not list its columns", "forbids some; list them in [schema]"
        )
    if policy.askers is not None and asker not in policy.askers:
        raise _refused(party, job, "askers", f"comes from {asker!r}", "allows only other askers")


def _check_parties(party: str, policy: Policy, job: Agreed) -> None:
    fewest = policy.fewest_parties(job)
    allowed = f"requires {fewest}"
    if policy.min_parties is None and min(len(job.parties), job.quorum) > 1:
        allowed += " unless its [policy] says min_parties = 2"
    if len(job.parties) < fewest:
        asked = f"has {some(len(job.parties), 'party', 'parties')}"
        raise _refused(party, job, "min_parties", asked, allowed)
    if job.quorum < fewest:
        asked = f"would continue with {some(job.quorum, 'party', 'parties')}"
        raise _refused(party, job, "min_parties", asked, allowed)


def _check_leaf(party: str, policy: Policy, job: Agreed, settings: Any) -> None:
    least = job.spec.smallest_leaf(settings)
    if policy.min_samples_leaf > 1 and (
        isinstance(least, float) or least < policy.min_samples_leaf
    ):
        raise _refused(
            party,
            job,
            "min_samples_leaf",
            f"asks for min_samples_leaf={least}",
            f"requires a whole number of at least {policy.min_samples_leaf}",
        )


def _check_own_rows(party: str, policy: Policy, job: Agreed, settings: Any) -> None:
    """Refuse exact jobs over rows in which the party cannot count itself out of small nodes."""
    if job.kind == CHECK and policy.min_own_rows > ROUNDED_TO:
        asked = f"rounds counts to multiples of {ROUNDED_TO} only"
        allowed = f"lets it be counted only where it has {policy.min_own_rows} rows of a class"
        raise _refused(party, job, "min_own_rows", asked, allowed)
    grows = job.kind in (TRAIN, PROPOSE) and job.spec.divides == "rows"
    if not policy.min_own_rows or not grows or not job.is_exact:
        return
    if job.spec.counts_few:
        asked = f"asks for {job.protocol}, which {job.spec.counts_few}"
        allowed = f"lets it be counted only where it has {policy.min_own_rows} rows of a class"
        raise _refused(party, job, "min_own_rows", asked, allowed)
    if job.spec.n_trees(settings) > 1 and not job.spec.repeats_rows(settings):
        # Two trees that are cut one bin apart would differ by the rows of that bin.
        asked = "counts the same rows in every tree, so that trees can be subtracted"
        allowed = "requires bootstrap = true, or one tree"
        raise _refused(party, job, "min_own_rows", asked, allowed)


def _check_epsilon(party: str, policy: Policy, job: Agreed, settings: Any) -> None:
    limits = {"epsilon_per_job": policy.epsilon_per_job, "epsilon_total": policy.epsilon_total}
    for rule, limit in limits.items():
        if limit is None:
            continue
        allowed = f"allows epsilon={limit:g} at most"
        if job.privacy is None:
            asked = "adds no noise"
            if job.kind == EVALUATE:
                asked += " (its [evaluation] gives no epsilon)"
            raise _refused(party, job, rule, asked, allowed)
        epsilon = job.privacy.price
        if epsilon is None:
            asked = "gives epsilon_per_count, which sets no epsilon for the whole job"
            raise _refused(party, job, rule, asked, allowed)
        if epsilon > Fraction(str(limit)):
            raise _refused(
                party, job, rule, f"asks for epsilon={float(epsilon):g}", f"allows {limit:g}"
            )
        if not policy.trust_coordinator and job.kind != EVALUATE:  # that shows only noisy sums
            _check_trust(party, job, settings)


def _check_trust(party: str, job: Agreed, settings: Any) -> None:
    """Refuse a job whose epsilon does not hold against the coordinator."""
    shown = job.spec.shows(settings)
    if shown:
        instead = job.spec.instead(settings)
        hides = "hides exact counts from the coordinator"
        allowed = f"{hides}: {instead}" if instead else hides
        raise _refused(party, job, "trust_coordinator", shown, allowed)


def _refused(party: str, job: Agreed, rule: str, asked: str, allowed: str) -> PolicyError:
    return PolicyError(
        f"Job {job.name!r} {asked}; the policy of {party!r} {allowed} (rule {rule!r})."
    )
