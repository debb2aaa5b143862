"""The exact total cost of a series of releases, whatever is asked next (adaptive composition).

`WorstPath` updates the cost of a tree of scopes (see `scopes`) charge by charge: a charge changes
only the scopes above it. `Account` holds one per unit and checks budgets *before* a charge. That
makes it a privacy filter: later charges may depend on earlier releases in any way, as long as each
keeps the worst path within the budget. For pure differential privacy this is basic composition
(Rogers, Roth, Ullman, Vadhan 2016); the same rule holds for zero-concentrated DP, zCDP (Feldman,
Zrnic 2021; Whitehouse, Ramdas, Rogers, Wu 2023). Tighter numerical composition is not valid for
adaptively chosen parameters.

Secret samples: a tree's transcript is bounded by the tree's worst path for every outcome, and each
release reads only one sample, so the sampling theorem applies to the tree as a whole.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Self

from spinney.errors import BudgetError, SettingError
from spinney.privacy.budget import Cost, Measure, Unit, subsampled_cost
from spinney.privacy.scopes import Budget, Draw, Scope, Step, format_number

_ZERO = Fraction(0)
_NOT_HELD = {
    Measure.PURE: "A zCDP or Gaussian charge has no pure epsilon, so a pure epsilon account cannot "
    "hold it. Use a pure mechanism, or a zCDP budget.",
    Measure.GAUSSIAN: "An account of Gaussian noise holds only Gaussian charges: a pure or zCDP "
    "charge has no mu. Use a zCDP budget, which holds all three.",
}


@dataclass(frozen=True, slots=True)
class JobTerms:
    """The terms on which a party takes part in a job.

    Parameters
    ----------
    name
        A unique name: the same question under the same name gets its stored reply.
    data
        The fingerprint of the party's data set; the job debits the data set's lifetime account.
    n_parties, t_honest
        K parties, of which t must be honest and answer for the claims to hold.
    budgets
        The largest cost of the job, per unit; if empty, costs are counted and never refused.
    measure
        The measure that the job counts in.
    """

    name: str
    data: str
    n_parties: int
    t_honest: int
    budgets: tuple[Budget, ...] = ()
    measure: Measure = Measure.PURE

    def __post_init__(self) -> None:
        for name in (self.name, self.data):
            Step(name)  # refuses text that cannot be in a ledger line
        if not 1 <= self.t_honest <= self.n_parties:
            raise SettingError(
                f"t_honest must be between 1 and the {self.n_parties} parties; got {self.t_honest}."
            )
        if self.t_honest == self.n_parties == 2:
            raise SettingError(
                "With two parties, t_honest must be 1: if both must be honest, neither is "
                "protected from the other."
            )
        Account(self.measure, self.budgets)  # refuses incompatible budgets

    @classmethod
    def agreed(cls, name: str, data: str, n_parties: int, budgets: Sequence[Budget] = ()) -> Self:
        """Return terms with an honest half, counted in the measure of the budgets."""
        measure = budgets[0].measure if budgets else Measure.PURE
        return cls(name, data, n_parties, (n_parties + 1) // 2, tuple(budgets), measure)

    def honest_for(self, what: str, parameters: Mapping[str, str]) -> int:
        """Return how many parties must add honest noise; raise if the job promises fewer."""
        honest, parties = int(parameters.get("honest", 1)), parameters.get("parties")
        if honest > self.t_honest or parties not in (None, str(self.n_parties)):
            raise SettingError(
                f"The noise of {what} is shared by {parties} parties, of which {honest} must be "
                f"honest; job {self.name!r} has {self.n_parties} and promises {self.t_honest}."
            )
        return honest


@dataclass(frozen=True, slots=True)
class Line:
    """The cost of one release, charged to a scope once for every time it was released there."""

    scope: Scope
    cost: Cost
    times: int = 1


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why a charge does not fit: the budget, the requested amount and the amount left.

    `factor` is how often the budget's unit counts a record that is added or removed.
    """

    budget: Budget
    asked: Fraction
    left: Fraction

    is_for_life: bool = False
    factor: int = 1

    @property
    def amounts(self) -> tuple[str, str]:
        """What was asked and what is left, in words that show the difference."""
        word = "epsilon" if self.budget.measure is Measure.PURE else "rho"
        numbers = (self.asked, max(_ZERO, self.left))
        for digits in (6, 12, 17):  # enough digits to show the difference
            asked, left = (f"{word}={format_number(number, digits)}" for number in numbers)
            if asked != left:
                break
        return asked, left

    @property
    def unit(self) -> str:
        """The unit of the budget in words, and how it counts a record added or removed."""
        times = {2: "twice", 4: "four times"}.get(self.factor)
        more = f" ({times} what {Unit.RECORD_ADD_REMOVE.in_words} costs)" if times else ""
        return f"{self.budget.unit.in_words}{more}"

    def refusal(self, what: str) -> BudgetError:
        """Return the error that refuses a charge for `what`."""
        asked, left = self.amounts
        start = f"Charge refused for {what}: asked {asked} for {self.unit}"
        if not self.is_for_life:
            text = f"{start}, left {left}. Nothing was released."
            return BudgetError(text, asked=self.asked, left=max(_ZERO, self.left))
        return BudgetError(  # do not reveal what other jobs have spent
            f"{start}, more than is left for the life of the data set. Nothing was released. "
            "Lower the job's epsilon, or raise the data set's lifetime budget.",
            local=f"Left {left}.",
            asked=self.asked,
        )


@dataclass(slots=True)
class _Group:
    """One partition of a scope: its parts share no row."""

    worst: Fraction = _ZERO  # the maximum over the parts
    parts: dict[str, "_Rows"] = field(default_factory=dict)


@dataclass(slots=True)
class _Rows:
    """One scope."""

    worst: Fraction = _ZERO  # charged here, plus the worst of every partition
    groups: dict[tuple[str, bool, str, Fraction], _Group] = field(default_factory=dict)


_Undo = list[tuple[_Rows | _Group, Fraction]]


class WorstPath:
    """The cost of the record that pays most, over a growing tree of scopes."""

    def __init__(self, measure: Measure, unit: Unit) -> None:
        self._zero = Cost.zero(measure, unit)
        self._root = _Rows()

    @property
    def total(self) -> Fraction:
        """The cost of the worst path."""
        return self._root.worst

    def through(self, scope: Scope) -> Fraction:
        """Return the cost of the worst path through `scope`."""
        rows: _Rows | None = self._root
        beside: list[Fraction] = []  # what the record pays outside the current step
        for step in scope.path:
            group = rows.groups.get(step.group) if rows else None
            beside.append((rows.worst if rows else _ZERO) - (group.worst if group else _ZERO))
            rows = group.parts.get(step.part) if group else None
        worst = rows.worst if rows else _ZERO
        for step, other in zip(reversed(scope.path), reversed(beside), strict=True):
            worst = other + self._seen_above(step, worst)
        return worst

    def add(self, lines: Iterable[tuple[Scope, Fraction]]) -> None:
        """Charge each scope with its amount."""
        self._add(lines, undo=[])

    def total_with(self, lines: Iterable[tuple[Scope, Fraction]]) -> Fraction:
        """Return what the total would be after these charges; nothing is charged."""
        undo: _Undo = []
        try:
            self._add(lines, undo)
            return self.total
        finally:
            for place, worst in reversed(undo):
                place.worst = worst

    def _add(self, lines: Iterable[tuple[Scope, Fraction]], undo: _Undo) -> None:
        for scope, amount in lines:
            rows, way = self._root, []
            for step in scope.path:
                group = rows.groups.setdefault(step.group, _Group())
                way.append((rows, step, group))
                rows = group.parts.setdefault(step.part, _Rows())
            rise = _raise(rows, amount, undo)
            for above, step, group in reversed(way):
                if rise == 0:
                    break
                seen = self._seen_above(step, rows.worst)
                rise = _raise(above, _raise(group, max(_ZERO, seen - group.worst), undo), undo)
                rows = above

    def _seen_above(self, step: Step, amount: Fraction) -> Fraction:
        """Return what the rows above a step pay for an amount spent below it."""
        if step.draw is Draw.NONE or amount == 0:
            return amount
        cost = Cost(self._zero.measure, amount, self._zero.unit)
        if step.draw is Draw.OWN_COIN:
            return subsampled_cost(cost, step.rate).amount
        times = step.rate  # group privacy: k copies cost k epsilon, or k**2 rho
        return amount * (times if cost.measure is Measure.PURE else times**2)


def _raise(place: _Rows | _Group, amount: Fraction, undo: _Undo) -> Fraction:
    undo.append((place, place.worst))
    place.worst += amount
    return amount


class Account:
    """The charges to one job, or to one data set over its lifetime, and the remaining budget.

    A charge debits every unit that it affects: to replace a record is to remove one and add one,
    and a changed label is a replaced record, so both cost twice what adding or removing costs.

    Parameters
    ----------
    measure
        The measure of the account; a pure cost enters a zCDP account as epsilon**2 / 2.
    budgets
        At most one per unit; a unit without a budget is counted and never refused.
    """

    def __init__(self, measure: Measure, budgets: Sequence[Budget] = ()) -> None:
        units = [budget.unit for budget in budgets]
        if len(set(units)) < len(units):
            raise SettingError(f"Each unit can have only one budget; got {', '.join(units)}.")
        for budget in budgets:
            if budget.measure is not measure:
                raise SettingError(
                    f"Budgets must be counted in {measure.value}; got {budget}. "
                    f"One job counts in one measure."
                )
        self.measure = measure
        self.budgets = tuple(budgets)
        self._paths = {unit: WorstPath(measure, unit) for unit in Unit}
        self._deltas = dict.fromkeys(Unit, _ZERO)

    def add(self, lines: Sequence[Line]) -> None:
        """Charge the lines; check them first with `shortfall`."""
        for unit, amounts in self._amounts(lines).items():
            self._paths[unit].add(amounts)
        for line in lines:
            self._deltas[line.cost.unit] += line.cost.delta * line.times

    def shortfall(self, lines: Sequence[Line]) -> Shortfall | None:
        """Return the first budget that these lines together would overspend, or None."""
        amounts = self._amounts(lines)
        for budget in self.budgets:
            borne = {unit for unit in self._factors(budget.unit) if amounts[unit]}
            after = self._sum(budget.unit, lambda unit: self._paths[unit].total_with(amounts[unit]))
            if borne and after > budget.amount:
                # rows off the worst path have more left than the account as a whole
                left = min(self._left(budget, line.scope) for line in lines)
                asked = after - budget.amount + left
                factor = max(self._factors(budget.unit)[unit] for unit in borne)
                return Shortfall(budget, asked=asked, left=left, factor=factor)
        return None

    def spent(self, unit: Unit) -> Fraction:
        """Return what the worst record has paid, in this account's measure."""
        return self._sum(unit, lambda source: self._paths[source].total)

    def left(self, unit: Unit, scope: Scope) -> Fraction | None:
        """Return what the worst record of a scope may still be charged; None: no limit."""
        lefts = [self._left(budget, scope) for budget in self.budgets if budget.unit is unit]
        return lefts[0] if lefts else None

    def _left(self, budget: Budget, scope: Scope) -> Fraction:
        return budget.amount - self._sum(
            budget.unit, lambda source: self._paths[source].through(scope)
        )

    def sampler_delta(self, unit: Unit) -> Fraction:
        """Return the probability that some sampler that affects the unit missed its law."""
        return sum((self._deltas[source] for source in self._factors(unit)), start=_ZERO)

    def _sum(self, unit: Unit, amount: Callable[[Unit], Fraction]) -> Fraction:
        """Return what the unit pays, given what each unit that affects it pays."""
        factors = self._factors(unit).items()
        return sum((factor * amount(source) for source, factor in factors), start=_ZERO)

    def _factors(self, unit: Unit) -> dict[Unit, int]:
        """Return the units whose cost bounds this unit's cost, with the factor of each."""
        factors = ((source, implied_factor(source, unit, self.measure)) for source in Unit)
        return {source: factor for source, factor in factors if factor is not None}

    def _amounts(self, lines: Sequence[Line]) -> dict[Unit, list[tuple[Scope, Fraction]]]:
        amounts: dict[Unit, list[tuple[Scope, Fraction]]] = {unit: [] for unit in Unit}
        for line in lines:
            cost = line.cost.as_zcdp() if self.measure is Measure.ZCDP else line.cost
            if cost.measure is not self.measure:
                raise SettingError(_NOT_HELD[self.measure])
            if cost.unit is Unit.RECORD_REPLACE and line.scope.is_divided:
                raise SettingError(
                    f"A replaced record may leave one part and enter another, so a charge per "
                    f"{cost.unit.value} cannot be limited to {line.scope}. Charge all rows, or "
                    f"charge per {Unit.RECORD_ADD_REMOVE.value} and read it twice."
                )
            counted = (cost.measure, cost.unit)
            if line.scope.is_sampled and counted != (Measure.PURE, Unit.RECORD_ADD_REMOVE):
                raise SettingError(
                    f"A secret sample is accounted only in pure epsilon per "
                    f"{Unit.RECORD_ADD_REMOVE.value}; got {cost.measure.value} per "
                    f"{cost.unit.value} for {line.scope}."
                )
            amounts[cost.unit].append((line.scope, cost.amount * line.times))
        return amounts


def implied_factor(source: Unit, target: Unit, measure: Measure) -> int | None:
    """Return the factor by which a cost per `source` bounds the cost per `target`; None: no bound.

    Replacing is removing and adding, and changing a label is a kind of replacing. Group privacy
    for two: 2 epsilon, or 4 rho (Bun and Steinke 2016, proposition 1.9).
    """
    if source is target:
        return 1
    if source is Unit.RECORD_ADD_REMOVE:
        return 2 if measure is Measure.PURE else 4
    if source is Unit.RECORD_REPLACE and target is Unit.LABEL:
        return 1
    return None
