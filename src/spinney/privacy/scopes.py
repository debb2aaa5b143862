"""Which rows a release reads: a path from all rows down to disjoint parts and secret samples.

A scope is split by a *partition* into *parts* that share no row. One record stands in one part of
every partition, so parts of the same partition cost their maximum, and everything else adds up:

```text
cost(scope) = own + sum over its partitions of (max over the parts of cost(part))
```

Trees on the same rows are each a step of their own (`again`, `sampled`, `bootstrapped`): they add
up. Trees on disjoint blocks of rows are parts of one partition: they cost their maximum. A tree on
a secret sample costs what the sampling theorem makes of the cost of the whole tree.

A partition must be named by its *predicate*, for example "age<=30": a node that is split a second
time, otherwise, is then a second partition and is paid for again. Named by "split" alone, the left
of one cut and the right of another would pass for disjoint. Predicates are functions of one record
and of what was released before, never of true counts.

A level that charges every open node of a tree the same needs no parts: one charge to the tree's
own scope costs the worst path just as much, in one short entry.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, Self

from spinney.errors import SettingError


class Draw(StrEnum):
    """How the rows below a step were drawn from the rows above it, once, for all releases there."""

    NONE = "none"
    OWN_COIN = "sampled"  # each row by its own secret coin; `rate` is its chance
    BOOTSTRAP = "bootstrapped"  # each row Poisson(1) times, secretly
    REPEATED = "repeated"  # each row at most `rate` times, and anyone may know which


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """One step down: into the part of a partition, or into rows of its own for a tree."""

    of: str
    part: str = ""  # empty where the step does not divide the rows
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

    @property
    def group(self) -> tuple[str, bool, str, Fraction]:
        """What must be equal for two steps to count as parts of the same partition.

        Undivided rows are never disjoint from a part, whatever they are called.
        """
        return self.of, self.part == "", self.draw.value, self.rate

    def __str__(self) -> str:
        if self.draw is Draw.NONE:
            return f"{self.of}: {self.part}" if self.part else self.of
        rate = "" if self.draw is Draw.BOOTSTRAP else f" {self.rate}"
        return f"{self.of} ({self.draw.value}{rate})"


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

    def part(self, partition: str, part: str) -> Self:
        """Return the rows here that `partition`, named by its predicate, puts in `part`."""
        if not part:
            raise SettingError(f"A part of the partition {partition!r} must have a name; got ''.")
        return self._below(Step(partition, part))

    def again(self, name: str) -> Self:
        """Return the same rows under a name of their own; what is charged there adds up."""
        return self._below(Step(name))

    def sampled(self, name: str, rate: Fraction) -> Self:
        """Return rows drawn once by secret coins, each with chance `rate`."""
        return self._below(Step(name, draw=Draw.OWN_COIN, rate=rate))

    def bootstrapped(self, name: str) -> Self:
        """Return rows drawn once, each Poisson(1) times, secretly."""
        return self._below(Step(name, draw=Draw.BOOTSTRAP))

    def repeated(self, name: str, times: int) -> Self:
        """Return rows of which each may stand up to `times` times, known to anyone."""
        return self._below(Step(name, draw=Draw.REPEATED, rate=Fraction(times)))

    @property
    def is_divided(self) -> bool:
        """Whether a record's content decides if it is in this scope."""
        return any(step.part for step in self.path)

    @property
    def is_drawn(self) -> bool:
        """Whether the rows were sampled on the way."""
        return any(step.draw is not Draw.NONE for step in self.path)

    def _below(self, step: Step) -> Self:
        return type(self)((*self.path, step))

    def __str__(self) -> str:
        return "; ".join(map(str, self.path)) or "all rows"


ALL_ROWS: Final = Scope()


def _is_text(value: Any) -> bool:
    """Return whether the value can stand in a ledger line and be read back unchanged."""
    return isinstance(value, str) and value.isprintable()
