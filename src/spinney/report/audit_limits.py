"""What a party lets an audit find (`[policy.audit]`), and the refusal of a model beyond it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from spinney.errors import PolicyError, SettingError, UnauditedError
from spinney.report.audited import Audit, MembershipAt, Rebuilt, Released, audit_in
from spinney.report.words import some

_SHARES = (
    "most_isolated",
    "most_isolated_in_sums",
    "most_cells",
    "most_tpr_at_1_percent",
    "most_tpr_at_01_percent",
)


class Broken(NamedTuple):
    """A limit that is not kept: its name, which others may hear, and what was found."""

    limit: str
    words: str


class AuditLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A party's thresholds for an audit. A limit that is not set has no effect.

    Attributes
    ----------
    most_isolated
        The largest share of training rows that stand alone in their class in some node of a model
        that leaves.
    most_isolated_in_sums
        The same for all sums that the coordinator and the other parties saw.
    most_cells
        The largest share of the isolated rows' cells that is recovered within 2 % of its range.
    most_tpr_at_1_percent, most_tpr_at_01_percent
        The largest share of members that membership inference finds while it calls 1 %, or 0.1 %,
        of the others members.
    least_group
        The fewest rows of a leaf in a model that leaves.
    most_epsilon
        The largest lower bound on epsilon that runs may show.
    """

    most_isolated: float | None = None
    most_isolated_in_sums: float | None = None
    most_cells: float | None = None
    most_tpr_at_1_percent: float | None = None
    most_tpr_at_01_percent: float | None = None
    least_group: int | None = None
    most_epsilon: float | None = None

    def __post_init__(self) -> None:
        for name in _SHARES:
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise SettingError(f"{name} is a share between 0 and 1; got {value}.")
        if self.least_group is not None and self.least_group < 1:
            raise SettingError(f"least_group must be at least 1; got {self.least_group}.")
        if self.most_epsilon is not None and not self.most_epsilon > 0:
            raise SettingError(f"most_epsilon must be above 0; got {self.most_epsilon}.")
        for said in self._contradictions():
            raise SettingError(f"[policy.audit] contradicts itself: {said}")

    def _contradictions(self) -> Iterator[str]:
        for name, guess in (("most_tpr_at_1_percent", 0.01), ("most_tpr_at_01_percent", 0.001)):
            value = getattr(self, name)
            if value is not None and value < guess:
                yield (
                    f"{name} = {value:g} is below {guess:g}, which guessing reaches, so that no "
                    f"model could leave. Set it to {guess:g} or more."
                )
        few, many = self.most_tpr_at_01_percent, self.most_tpr_at_1_percent
        if few is not None and many is not None and few > many:
            yield (
                f"most_tpr_at_01_percent = {few:g} is above most_tpr_at_1_percent = {many:g}, but "
                "whoever may raise more false alarms finds at least as many members. Lower the "
                "first or raise the second."
            )
        sums, model = self.most_isolated_in_sums, self.most_isolated
        if sums is not None and model is not None and sums < model:
            yield (
                f"most_isolated_in_sums = {sums:g} is below most_isolated = {model:g}, but the "
                "sums hold every count of the model. Lower the second or raise the first."
            )
        if self.least_group == 1 and self.most_isolated == 0:
            yield (
                "least_group = 1 lets a leaf hold one row, and most_isolated = 0 lets no row "
                "stand alone. Raise least_group to 2 or more."
            )

    @property
    def that_are_set(self) -> dict[str, float]:
        """The limits that have an effect."""
        given = msgspec.structs.asdict(self)
        return {name: value for name, value in given.items() if value is not None}

    def broken_by(
        self, audit: Audit, released: Released, *, exact_counts: bool = False
    ) -> tuple[Broken, ...]:
        """Return the limits that an audit does not keep, for the model that leaves.

        What could not be tried, or not with enough rows, does not keep a limit. `exact_counts` is
        the rule of that name in [policy].
        """
        exact = released.groups.exact_counts and not exact_counts
        words = "nodes hold exact counts of rows, and exact_counts = false"
        return (
            *([Broken("exact_counts", words)] if exact else ()),
            *self._broken_by_model(released),
            *self._broken_by_sums(audit),
            *self._broken_by_epsilon(audit),
        )

    def _broken_by_model(self, released: Released) -> Iterator[Broken]:
        groups = released.groups
        least = None if groups.noisy else self.least_group
        if least is not None and groups.smallest_leaf < least:
            yield Broken(
                "least_group",
                f"the smallest leaf holds {some(groups.smallest_leaf, 'row', 'rows')}, and "
                f"least_group = {least}",
            )
        yield from self._broken_by_view("most_isolated", released.rebuilt)
        yield from self._broken_by_cells(released.rebuilt)
        for name, wanted in (("most_tpr_at_1_percent", 0.01), ("most_tpr_at_01_percent", 0.001)):
            limit = getattr(self, name)
            if limit is None:
                continue
            at = () if released.membership is None else released.membership.at
            found = next((one for one in at if one.wanted == wanted), None)
            yield from _broken_by_membership(name, limit, found)

    def _broken_by_cells(self, rebuilt: Rebuilt) -> Iterator[Broken]:
        limit, cells = self.most_cells, rebuilt.cells
        if limit is None:
            return
        if rebuilt.isolated is None:
            words = f"most_cells = {limit:g} was not tried: the audit had no rows"
            yield Broken("most_cells", words)
        elif cells is not None and cells.share > limit:
            yield Broken(
                "most_cells",
                f"{_percent(cells.share)} of the isolated rows' cells are recovered, and "
                f"most_cells = {limit:g}",
            )

    def _broken_by_view(self, name: str, rebuilt: Rebuilt) -> Iterator[Broken]:
        limit = getattr(self, name)
        if limit is None:
            return
        if rebuilt.isolated is None:
            yield Broken(name, f"{name} = {limit:g} was not tried: the audit had no rows")
        elif rebuilt.isolated.share > limit:
            yield Broken(
                name,
                f"{rebuilt.view} isolates {_percent(rebuilt.isolated.share)} of the rows, and "
                f"{name} = {limit:g}",
            )

    def _broken_by_sums(self, audit: Audit) -> Iterator[Broken]:
        if self.most_isolated_in_sums is not None and not audit.sums:
            yield Broken(
                "most_isolated_in_sums",
                f"most_isolated_in_sums = {self.most_isolated_in_sums:g} was not tried: the audit "
                "had no job to grow again",
            )
        for view in audit.sums:
            yield from self._broken_by_view("most_isolated_in_sums", view)

    def _broken_by_epsilon(self, audit: Audit) -> Iterator[Broken]:
        found = audit.epsilon
        if found is None:
            if self.most_epsilon is not None:
                words = (
                    f"most_epsilon = {self.most_epsilon:g} was not tried: no private job was run"
                )
                yield Broken("most_epsilon", words)
            return
        if self.most_epsilon is not None and found.bound > self.most_epsilon:
            yield Broken(
                "most_epsilon",
                f"runs show an epsilon of at least {found.bound:.2f}, and most_epsilon = "
                f"{self.most_epsilon:g}",
            )


def claims_refuted(audit: Audit) -> tuple[Broken, ...]:
    """Return what is wrong whatever the limits are: a claim that the runs disprove."""
    found = audit.epsilon
    if found is None or not found.is_refuted:
        return ()
    said = f"runs show an epsilon of at least {found.bound:.2f}, but the job claims {found.claim:g}"
    if found.always_same:
        said = (
            f"the job claims epsilon = {found.claim:g}, but {found.n_runs} runs gave the same "
            "numbers: there is no noise"
        )
    return (Broken("the job's epsilon", said),)


def refuse_unaudited(
    limits: AuditLimits | None, folder: Path, model: bytes, *, exact_counts: bool = False
) -> None:
    """Raise unless a model was audited in its run's folder and keeps the limits.

    `UnauditedError` says that there is no audit of it yet, `PolicyError` that it does not pass.

    Parameters
    ----------
    limits
        The party's [policy.audit]; None: it asks for no audit.
    folder
        The folder with `audit.json`.
    model
        The bytes that would leave, hardened as they leave.
    exact_counts
        The rule of that name in the party's [policy].
    """
    if limits is None:
        return
    audit = audit_in(folder)
    if audit is None:
        raise UnauditedError(
            "This model was not audited, and the party's policy has limits for it "
            "([policy.audit]). Run spinney audit on its run first. Nothing was released.",
            local=f"It is kept in {str(folder)!r}.",
        )
    released = audit.of_model(model)
    if released is None:
        raise UnauditedError(
            "The audit beside this model is about another model, and the party's policy has limits "
            "for it ([policy.audit]). Run spinney audit again. Nothing was released."
        )
    kept = limits.broken_by(audit, released, exact_counts=exact_counts)
    broken = (*claims_refuted(audit), *kept)
    if broken:
        names = ", ".join(dict.fromkeys(one.limit for one in broken))
        raise PolicyError(
            f"This party's audit of the model does not keep its limits: {names}. Nothing was "
            "released.",
            local=f"The audit found: {'; '.join(one.words for one in broken)}.",
        )


def refuse_failed(folder: Path, model: bytes) -> None:
    """Raise `PolicyError` if a run's folder holds an audit of its model that did not pass."""
    audit = audit_in(folder)
    if audit is not None and audit.broken and audit.of_model(model) is not None:
        raise PolicyError(
            f"The audit of this run does not pass: {'; '.join(audit.broken)}. Agree on a stricter "
            "[release] in a new job, or audit again with other limits. Nothing was written."
        )


def _broken_by_membership(name: str, limit: float, found: MembershipAt | None) -> Iterator[Broken]:
    if found is None:
        words = f"{name} = {limit:g} was not tried: the audit had no job to train again"
        yield Broken(name, words)
    elif found.rows_needed:
        yield Broken(
            name,
            f"{name} = {limit:g} cannot be judged with so few rows: {found.rows_needed:,} are "
            "needed",
        )
    elif found.found.share > limit:
        yield Broken(
            name,
            f"membership inference finds {_percent(found.found.share)} of the members at "
            f"{found.wanted:.1%} false alarms, and {name} = {limit:g}",
        )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
