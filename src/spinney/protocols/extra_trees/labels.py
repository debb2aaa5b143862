"""Labels that each party randomises once: S5's local differential privacy, and a better scheme.

Anonymous (2020), *Federated Extra-Trees with Privacy Preserving*, steps 1 to 3 and equations 1 to
4. A record's label is randomised when it is first needed. The answer is stored for the life of the
record (`privacy.label_memory`), and only answers are ever counted. So any number of trees of any
depth, and all later jobs, cost nothing more.

| paper | here |
|---|---|
| B, Bloom filter of a label; h = 32 bits, 4 hashes | `privacy.labels.bloom_filters` |
| B', permanent randomised response; p = 1/2 | first step of `BloomResponse` |
| R, instantaneous response; xi = 0.8, zeta = 0.2 | its second step; also drawn once |
| Sum, equations 3 and 4 | counters of a cell: rows, then reported bits |
| Lasso regression | least squares without negative counts, on the known design |

The paper draws R again for every question; here it is drawn once. Fresh draws over the same B'
would average out over the questions of one forest and leave B' itself, which is what the price,
8 ln 3, covers. So the promise is the same, and only the stored answer is ever used.

The default is k-ary randomised response, which at epsilon 2 does at least as well as the paper's
filters at 8.79, both drawn once (`docs/results.md` has figures, also for B' alone, which does
better with many classes). `label_scheme="unary"` is for many classes.

**Who learns what.** The same as in the protocol that runs, with answers instead of labels. Features
are not randomised: the number of a party's rows, and the nodes they are in, are as visible as
without this. Hence the ledger promises epsilon to a *label* (label differential privacy) and
nothing to a *record*. **Who never learns what.** Nobody but its party sees a label, a count of true
labels, or which answer a record gave. No row key depends on the row's label (`tables.records`), so
a bootstrap reveals nothing about it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Unit
from spinney.privacy.label_memory import LabelMemory
from spinney.privacy.labels import BloomResponse, UnaryResponse, bloom_filters, unpack_bits
from spinney.privacy.mechanisms import RandomisedResponse
from spinney.privacy.release import Charge, Exact
from spinney.privacy.scopes import ALL_ROWS, PARTY_TOTALS, Budget, Disclosure, Protection, Spend
from spinney.protocols.accounts.account import PartyAccount
from spinney.protocols.settings import PrivacySettings, Terms, fraction_of
from spinney.tables.records import records_of
from spinney.tables.schema import Schema
from spinney.tables.table import BATCH_ROWS, Batch, Table
from spinney.typing import Integers, Keys

Response = RandomisedResponse | BloomResponse | UnaryResponse


_UNPROTECTED: Final = Disclosure(
    "counts of rows by their features",
    Protection.UNPROTECTED,
    "only labels are randomised",
    (Unit.RECORD_ADD_REMOVE, Unit.RECORD_REPLACE, PARTY_TOTALS),
)


@dataclass(frozen=True)
class LabelPlan:
    """What randomised labels cost, and how they are counted."""

    called: ClassVar[str] = "<class 'spinney.protocols.randomised_labels.LabelPlan'>"

    schema: Schema
    privacy: PrivacySettings
    n_parties: int

    def __post_init__(self) -> None:
        _ = self.response  # raises if the scheme cannot represent the classes

    @cached_property
    def response(self) -> Response:
        """How a label is randomised."""
        n_classes = len(self.schema.label.classes or ())
        if not n_classes:
            raise SettingError(
                f"The label {self.schema.label.name!r} is a number, and only classes can be "
                "randomised. Use label_privacy='laplace'."
            )
        match self.privacy.label_scheme:
            case "bloom":
                return BloomResponse(n_classes)
            case "unary":
                return UnaryResponse(self._epsilon, n_classes)
        return RandomisedResponse(self._epsilon, n_classes)

    @property
    def _epsilon(self) -> Fraction:
        return fraction_of(self.privacy.epsilon or "", "epsilon")

    @property
    def n_bits(self) -> int:
        """How many bits a cell counts besides its rows; 0 if it counts reported classes."""
        return 0 if isinstance(self.response, RandomisedResponse) else self.response.n_bits

    @property
    def scheme(self) -> str:
        """The key under which answers are stored: the label, and how it is randomised."""
        label, facts = self.schema.label, self.response.parameters()
        how = " ".join(f"{name}={facts[name]}" for name in sorted(facts))
        return f"{label.name!r} of {label.classes}: {how}"

    def spend(self, scope_name: str = "", batch: str = "") -> Spend:
        """Return the price of the labels of some records; batches have no record in common."""
        scope = ALL_ROWS.part(scope_name, batch) if scope_name else ALL_ROWS
        return Spend("labels, each randomised once", self.response, (scope,))

    def planned(self) -> list[Spend]:
        """Return everything the job may spend."""
        return [self.spend()]

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        budget = Budget.pure(self.response.cost().amount, Unit.LABEL)
        return JobTerms(self.privacy.job, data, self.n_parties, 1, (budget,))


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """A party's table with answers instead of labels; keys do not depend on true labels."""

    inner: Table
    target: NDArray[np.int32]
    keys: Keys
    words: NDArray[np.uint32]  # (n_rows, n_words) reported bits; empty if classes are reported

    @property
    def schema(self) -> Schema:
        """The public facts."""
        return self.inner.schema

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.inner.n_rows

    def batches(self, size: int = BATCH_ROWS) -> Iterator[Batch]:
        """Yield all rows in order, at most `size` at a time."""
        row = 0
        for batch in self.inner.batches(size):
            part = slice(row, row + batch.keys.size)
            yield Batch(batch.values, self.target[part], self.keys[part])
            row = part.stop


def open_memory(folder: Path, name: str, table: Table) -> LabelMemory:
    """Open a party's label memory, and erase the answers of records that left the table.

    `table` must hold all of the party's records. A record that comes back later is randomised, and
    paid for, again.
    """
    memory = LabelMemory.open(folder / f"{name}.labels", folder / f"{name}.key")
    memory.forget_all_but(records_of(table).ids)
    return memory


def randomise_labels(
    table: Table, plan: LabelPlan, account: PartyAccount, memory: LabelMemory
) -> LabelledTable:
    """Return the table with answers: stored ones, or new ones that are paid for and stored."""
    records = records_of(table)
    records.require_own_ids()
    ids, labels = records.ids, records.labels
    answers, known = memory.recall(plan.scheme, ids, labels)
    if known.all() and answers is not None:
        account.disclose(plan, "labels given again", [_again(plan), _UNPROTECTED])
    else:
        new = np.flatnonzero(~known)
        # Records are drawn once, except those that were erased and came back.
        since = f"labels by when they were drawn, after {memory.erasures} erasures"
        spend = plan.spend(since, f"from record {memory.n_known(plan.scheme)}")

        def draw(charges: tuple[Charge, ...]) -> bytes:
            drawn = plan.response.release(Exact(labels[new]), charges[0]).values
            words = drawn[:, None] if drawn.ndim == 1 else drawn
            memory.remember(plan.scheme, ids[new], labels[new], words)
            return b""  # nothing is sent; the answers are stored encrypted, not in the ledger

        asked = Terms(plan.privacy, plan.n_parties)
        account.pay(plan, 0, asked, [spend], draw, disclosures=[_UNPROTECTED])
        answers, _ = memory.recall(plan.scheme, ids, labels)
    assert answers is not None
    return _table(table, plan, ids, answers)


def _again(plan: LabelPlan) -> Disclosure:
    price = f"epsilon={float(plan.response.cost().amount):.6g}"
    return Disclosure(
        "labels as they were randomised before",
        Protection.HIDDEN,
        f"drawn once, at {price} for each, and paid for then",
        (Unit.LABEL,),
    )


def _table(table: Table, plan: LabelPlan, ids: Keys, answers: Integers) -> LabelledTable:
    if isinstance(plan.response, RandomisedResponse):
        none = np.zeros((0, 0), np.uint32)
        return LabelledTable(table, answers[:, 0].astype(np.int32), ids, none)
    words = answers.astype(np.uint32)
    return LabelledTable(table, _likeliest(plan.response, words), ids, words)


def _likeliest(
    response: BloomResponse | UnaryResponse, words: NDArray[np.uint32]
) -> NDArray[np.int32]:
    """Return the class whose bits fit a report best; this uses only the report, so it is free."""
    fit = unpack_bits(words, response.n_bits)
    if isinstance(response, BloomResponse):
        filters = bloom_filters(response.n_classes)
        fit = fit @ (2.0 * filters.T) - filters.sum(axis=1)
    found: NDArray[np.int32] = fit.argmax(axis=1).astype(np.int32)
    return found
