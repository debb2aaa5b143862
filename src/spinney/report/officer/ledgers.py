"""The state of parties' ledgers: how far they go, what they still allow, and whether they hold."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spinney.errors import LedgerError
from spinney.privacy.budget import Unit
from spinney.privacy.claims import Books
from spinney.privacy.ledger_copies import opened
from spinney.privacy.ledger_store import LifeBudgets, Restarted
from spinney.privacy.signatures import own_key_of
from spinney.report.budgets import amount
from spinney.report.facts import ReportFacts
from spinney.report.officer.sources import Source, said
from spinney.report.page.markup import Content, Html, join_html, table, tag


@dataclass(frozen=True)
class LedgerState:
    """A ledger as it was read."""

    party: str
    n_entries: int
    head: str
    verdict: str
    limit: str
    left: str
    remarks: tuple[str, ...] = ()  # restarts, clocks, who keeps its head


def state_of(path: Path) -> LedgerState:
    """Read and check a ledger."""
    with opened(path) as ledger:
        entries = ledger.entries()
        try:
            verdict, head = "every entry holds", ledger.verify()
            ledger.check_keys([], own=own_key_of(path))
        except LedgerError as error:
            verdict, head = f"DOES NOT HOLD: {error}", ledger.anchor()
        found_limits = (e.body for e in entries if isinstance(e.body, LifeBudgets))
        names = {body.data: body.budgets for body in found_limits}  # the last one of a table holds
        limits = [f"{name}: {budget}" for name, of in names.items() for budget in of]
        left = [
            f"{name}: {amount(str(found))} for {unit.in_words}"
            for name in names
            for unit in Unit
            if (found := ledger.left_for_life(name, unit)) is not None
        ]
        return LedgerState(
            ledger.party,
            len(entries),
            head.hash.hex(),
            verdict,
            "; ".join(limits) or "none",
            "; ".join(left) or "no limit for life",
            tuple(_remarks(ledger.books)),
        )


def _remarks(books: Books) -> Iterator[str]:
    """Return what people must know of a ledger beside its numbers."""
    for entry in books.restarts:
        assert isinstance(entry.body, Restarted)
        lost = f" Entries up to {entry.body.lost} were given up." if entry.body.lost else ""
        yield (
            f"was RESTARTED on {entry.at[:10]} (entry {entry.seq}), and says why: "
            f"{entry.body.reason}.{lost} What was lost is not in the budget that is left."
        )
    if not books.keys:
        yield "is not signed: it is of an earlier version, or of a simulation."
    if books.countersigned:
        last = max(books.countersigned, key=lambda kept: kept.entry)
        names = dict.fromkeys(one.name for kept in books.countersigned for one in kept.by)
        yield f"has its head up to entry {last.entry} kept by {', '.join(names)}."
    else:
        yield "has no head that others keep, so nobody else would notice if it were turned back."
    if books.set_back:
        yield f"has times that go back (a clock was set) before entry {books.set_back[0]}."


def ledger_section(
    report: ReportFacts, report_source: Source, states: list[tuple[LedgerState, Source]]
) -> Html:
    """Return the state of the ledgers that were given, and what the report says of budgets."""
    parts: list[Content] = []
    if states:
        lines: list[list[Content]] = [
            [
                join_html(state.party, " ", source.mark),
                f"{state.n_entries:,}",
                tag("code", state.head),
                state.verdict,
                state.limit,
                state.left,
            ]
            for state, source in states
        ]
        headings = ["ledger of", "entries", "hash of the last entry", "check"]
        headings += ["limit for life", "left for life"]
        parts.append(table("Ledgers", headings, lines))
        remarks = [
            tag("li", f"The ledger of {state.party} {one} ", source.mark)
            for state, source in states
            for one in state.remarks
        ]
        parts.append(tag("ul", *remarks))
    else:
        words = (
            "No ledger was given. Each party has its own, and names it with --ledger; its last "
            "entry's hash, kept elsewhere, shows later that nothing was taken back."
        )
        parts.append(tag("p", words, class_="warn"))
    if report.budgets:
        spent: list[list[Content]] = [
            [one.party, one.unit, amount(one.spent), amount(one.left)] for one in report.budgets
        ]
        headings = ["party", "unit", "spent in this run", "left for this job"]
        parts += [said("What the run cost each party:", report_source)]
        parts.append(table("Budgets", headings, spent))
    return join_html(*parts)
