"""What a question asks a party to release: from which rows, under which protection, to whom.

A *scope* is the set of rows that a release reads: a path from all rows down to parts and secret
samples. A *partition* splits a scope into *parts* that share no row. One record is in one part of
every partition, so parts of the same partition cost their maximum (parallel composition), and
everything else adds up (sequential composition):

```text
cost(scope) = own + sum over its partitions of (max over the parts of cost(part))
```

Trees on the same rows are separate steps (`again`, `sampled`): their costs add up.
Trees on disjoint blocks of rows are parts of one partition: they cost their maximum. For a tree on
a secret sample, the sampling theorem gives the cost from the cost of the whole tree.

A partition must be named by its *predicate*, for example "age<=30": if a node is split a second
time in another way, that is then a second partition and is paid for again. If it were named only
"split", the left of one cut and the right of another would count as disjoint. Predicates are
functions of one record and of earlier releases, never of true counts; for charges per label, never
of the label.

A level that charges every open node of a tree the same amount needs no parts: one charge to the
tree's scope costs the worst path just as much, in one short entry.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final, Self

from spinney.errors import InternalError, SettingError
from spinney.privacy.budget import Measure, Unit, epsilon_of, positive_epsilon, probability
from spinney.privacy.gaussian import gaussian_amount
from spinney.privacy.release import Mechanism

_ROUNDING: Final = 1 << 96  # a rho found by search is a multiple of 2**-96
PARTY_TOTALS: Final = "a party's own totals"
"""A unit that never has an epsilon: hidden in a sum over parties, or disclosed."""


class Draw(StrEnum):
    """How the rows below a step were drawn, once for all releases, from the rows above it."""

    NONE = "none"
    OWN_COIN = "sampled"  # each row by its own secret coin; `rate` is its chance
    REPEATED = "repeated"  # each row at most `rate` times, and anyone may know which


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """One step down: into a part of a partition, or into the rows of one tree."""

    of: str
    part: str = ""  # empty if the step does not divide the rows
    draw: Draw = Draw.NONE
    rate: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not (_is_text(self.of) and self.of and _is_text(self.part)):
            raise SettingError(
                f"A scope's step needs printable names for its partition and part; "
                f"got {self.of!r} and {self.part!r}."
            )
        if self.draw is Draw.OWN_COIN and not 0 < self.rate <= 1:
            raise SettingError(f"A sampling rate must be above 0, at most 1; got {self.rate}.")
        if self.draw is Draw.REPEATED and (self.rate.denominator != 1 or self.rate < 1):
            raise SettingError(f"Rows repeat a whole number of times; got {self.rate}.")

    @classmethod
    def of_words(cls, words: tuple[str, ...]) -> Self:
        """Return the step that `words` wrote."""
        of, part, draw, rate = (*words, *("", "none", "1")[len(words) - 1 :])
        return cls(of, part, Draw(draw), Fraction(rate))

    @property
    def words(self) -> tuple[str, ...]:
        """The step in one to four words, for the ledger; default values are omitted."""
        if self.draw is not Draw.NONE:
            return self.of, self.part, self.draw.value, str(self.rate)
        return (self.of, self.part) if self.part else (self.of,)

    @property
    def group(self) -> tuple[str, bool, str, Fraction]:
        """The fields that must be equal for two steps to be parts of the same partition.

        Undivided rows are never disjoint from a part, whatever their names.
        """
        return self.of, self.part == "", self.draw.value, self.rate

    def __str__(self) -> str:
        if self.draw is Draw.NONE:
            return f"{self.of}: {self.part}" if self.part else self.of
        return f"{self.of} ({self.draw.value} {self.rate})"


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """The rows that a release reads, as steps from all rows down.

    Examples
    --------
    >>> str(ALL_ROWS.again("tree 3").part("age<=30", "left"))
    'tree 3; age<=30: left'
    >>> str(ALL_ROWS.sampled("tree 3", Fraction(1, 2)))
    'tree 3 (sampled 1/2)'
    """

    path: tuple[Step, ...] = ()

    @classmethod
    def of_words(cls, words: tuple[tuple[str, ...], ...]) -> Self:
        """Return the scope that `words` wrote."""
        return cls(tuple(map(Step.of_words, words)))

    @property
    def words(self) -> tuple[tuple[str, ...], ...]:
        """The steps in words, for the ledger."""
        return tuple(step.words for step in self.path)

    def part(self, partition: str, part: str) -> Self:
        """Return the rows here that `partition`, named by its predicate, puts in `part`."""
        if not part:
            raise SettingError(f"A part of the partition {partition!r} must have a name; got ''.")
        return self._below(Step(partition, part))

    def again(self, name: str) -> Self:
        """Return the same rows under a separate name; charges to it add up."""
        return self._below(Step(name))

    def sampled(self, name: str, rate: Fraction) -> Self:
        """Return rows drawn once by secret coins, each with probability `rate`."""
        return self._below(Step(name, draw=Draw.OWN_COIN, rate=rate))

    def repeated(self, name: str, times: int) -> Self:
        """Return rows that are each repeated up to `times` times, which anyone may know."""
        return self._below(Step(name, draw=Draw.REPEATED, rate=Fraction(times)))

    @property
    def is_divided(self) -> bool:
        """Whether a record's content decides if it is in this scope."""
        return any(step.part for step in self.path)

    @property
    def is_sampled(self) -> bool:
        """Whether a step of the path drew the rows secretly."""
        return any(step.draw is Draw.OWN_COIN for step in self.path)

    def _below(self, step: Step) -> Self:
        return type(self)((*self.path, step))

    def __str__(self) -> str:
        return "; ".join(map(str, self.path)) or "all rows"


ALL_ROWS: Final = Scope()


class View(StrEnum):
    """Who may look. Everyone sees what a reader sees; a coalition sees what anyone sees."""

    READER = "reader"  # of the finished model
    COORDINATOR = "coordinator"
    PARTY = "party"  # any other party
    COALITION = "coalition"  # the coordinator with as many parties as the job allows to collude
    LABEL_HOLDER = "label holder"
    FEATURE_PARTY = "feature party"

    def sees(self, shown_to: Sequence["View"]) -> bool:
        """Return whether this view sees a release that is shown to the given views."""
        return self is View.COALITION or self in shown_to or View.READER in shown_to


EVERYONE: Final = (View.READER, View.COORDINATOR, View.PARTY, View.COALITION)


class Protection(StrEnum):
    """The protection of a release without noise."""

    HIDDEN = "HIDDEN"
    UNPROTECTED = "UNPROTECTED"


@dataclass(frozen=True, slots=True)
class Question:
    """A round's question; the same job, round and bytes are the same question."""

    job: str
    round: int
    digest: str

    @classmethod
    def of(cls, job: str, round_: int, ask: bytes) -> Self:
        """Return the question for the bytes of an ask."""
        digest = sha256(b"spinney question")
        for part in (job.encode(), str(round_).encode(), ask):
            digest.update(len(part).to_bytes(8, "big") + part)
        return cls(job, round_, digest.hexdigest())


@dataclass(frozen=True, slots=True)
class Spend:
    """A release that a mechanism protects and a charge pays for.

    Parameters
    ----------
    what
        What is released, in words for a privacy officer: "class counts of level 4".
    mechanism
        The mechanism that protects it; the party computes the cost from its parameters.
    scopes
        The rows it reads; if there are several scopes, each pays.
    n_releases
        How often it is released: each scope pays, and a charge is issued, for every release.
    n_values
        How many numbers one release holds.
    views
        Who sees it.
    """

    what: str
    mechanism: Mechanism
    scopes: tuple[Scope, ...] = (ALL_ROWS,)
    n_releases: int = 1
    n_values: int = 1
    views: tuple[View, ...] = EVERYONE

    def __post_init__(self) -> None:
        if not (self.what and self.scopes and self.views and self.n_releases > 0):
            raise InternalError("A spend names what it releases, from which rows, and who sees it.")


@dataclass(frozen=True, slots=True)
class Disclosure:
    """A release without noise.

    Parameters
    ----------
    what
        What is released, in words: "smallest and largest age".
    protection
        HIDDEN if something other than noise protects it, UNPROTECTED if nothing does.
    why
        The assumption that hides it, or the reason why nothing protects it.
    units
        The units whose protection depends on that assumption, or ends here.
    views
        Who sees it.
    """

    what: str
    protection: Protection
    why: str
    units: tuple[str, ...]
    views: tuple[View, ...] = EVERYONE

    def __post_init__(self) -> None:
        if not (self.what and self.why and self.units and self.views):
            raise InternalError("A disclosure names what, why, whose, and who sees it.")
        unknown = set(self.units) - {*Unit, PARTY_TOTALS}
        if unknown:
            raise InternalError(f"A disclosure has an unknown unit: {', '.join(sorted(unknown))}.")


@dataclass(frozen=True, slots=True)
class Budget:
    """The largest cost per unit of a job, or of all jobs on a data set together.

    Parameters
    ----------
    unit
        The unit of privacy.
    measure
        The measure of `amount`.
    amount
        epsilon if the measure is pure, rho if it is zCDP, mu**2 / 2 if it is Gaussian.
    delta
        The delta at which zCDP or Gaussian privacy is read as an epsilon; 0 for pure.
    """

    unit: Unit
    measure: Measure
    amount: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        positive_epsilon(self.amount, "A budget's amount")
        if (self.measure is Measure.PURE) is (self.delta > 0) or not 0 <= self.delta < 1:
            raise SettingError(
                f"A zCDP or Gaussian budget names the delta, between 0 and 1, at which it is read; "
                f"a pure one does not. Got {self.measure.value} and delta={self.delta}."
            )

    @classmethod
    def pure(cls, epsilon: Any, unit: Unit = Unit.RECORD_ADD_REMOVE) -> Self:
        """Return a budget of pure epsilon."""
        return cls(unit, Measure.PURE, positive_epsilon(epsilon))

    @classmethod
    def zcdp(cls, epsilon: Any, delta: Any, unit: Unit = Unit.RECORD_ADD_REMOVE) -> Self:
        """Return the largest rho that converts to at most `epsilon` at `delta`."""
        limit, chance = positive_epsilon(epsilon), probability(delta)
        low, high = 0, limit.numerator * _ROUNDING // limit.denominator  # rho is below epsilon
        while low < high:
            middle = (low + high + 1) // 2
            if epsilon_of(Fraction(middle, _ROUNDING), chance) <= limit:
                low = middle
            else:
                high = middle - 1
        return cls(unit, Measure.ZCDP, Fraction(low, _ROUNDING), chance)

    @classmethod
    def gaussian(cls, epsilon: Any, delta: Any, unit: Unit = Unit.RECORD_ADD_REMOVE) -> Self:
        """Return the largest mu**2 / 2 of Gaussian noise that is (epsilon, delta)-private."""
        chance = probability(delta)
        amount = gaussian_amount(positive_epsilon(epsilon), chance)
        return cls(unit, Measure.GAUSSIAN, amount, chance)

    def __str__(self) -> str:
        if self.measure is Measure.PURE:
            return f"epsilon={format_number(self.amount)} per {self.unit}"
        return (
            f"rho={format_number(self.amount)} (delta={format_number(self.delta)}) per {self.unit}"
        )


def format_number(value: Fraction, digits: int = 6) -> str:
    """Return a number as text with this many digits."""
    return f"{float(value):.{digits}g}"


def _is_text(value: Any) -> bool:
    """Return whether the value can be written to a ledger line and read back unchanged."""
    return isinstance(value, str) and value.isprintable()
