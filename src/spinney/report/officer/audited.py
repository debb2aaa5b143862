"""The audit of a run in the document: `audit.json` beside its report, which `spinney audit` writes.

Only what the document shows is read here.
"""

import msgspec

from spinney.errors import StorageError
from spinney.report.officer.sources import Source, said
from spinney.report.page.markup import Content, Html, join_html, table, tag

AUDIT = "audit.json"
_FORMAT = 1


class _Share(msgspec.Struct, frozen=True):
    share: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.share:.2g} % ({100 * self.low:.2g} to {100 * self.high:.2g} %)"


class _Groups(msgspec.Struct, frozen=True):
    least: int
    small_leaves: int
    exact_counts: bool


class _Rebuilt(msgspec.Struct, frozen=True):
    view: str
    isolated: _Share | None = None
    cells: _Share | None = None


class _At(msgspec.Struct, frozen=True):
    wanted: float
    found: _Share
    rows_needed: int = 0


class _Membership(msgspec.Struct, frozen=True):
    at: tuple[_At, ...]


class _Released(msgspec.Struct, frozen=True):
    name: str
    digest: str
    groups: _Groups
    rebuilt: _Rebuilt
    membership: _Membership | None = None


class _Epsilon(msgspec.Struct, frozen=True):
    claim: float
    bound: float
    n_runs: int


class _Audit(msgspec.Struct, frozen=True):
    format: int
    models: tuple[_Released, ...]
    sums: tuple[_Rebuilt, ...] = ()
    epsilon: _Epsilon | None = None
    notes: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()


def audit_section(found: tuple[bytes, Source] | None, model: Source | None) -> Html:
    """Return what the attacks got, and whether they were tried on the model of this run."""
    if found is None:
        words = "No audit was run: nobody has tried on this run what an attacker would. "
        command = tag("code", "spinney audit")
        return tag("p", words, command, " on the run's folder tries it.", class_="warn")
    data, source = found
    audit = _read(data, source)
    parts: list[Content] = []
    if model is not None and model.digest not in [one.digest for one in audit.models]:
        words = "The audit tried another model than the one in this folder. Audit the run again."
        parts.append(tag("p", words, " ", source.mark, model.mark, class_="warn"))
    if audit.broken:
        parts.append(tag("p", "Limits that are not kept: ", "; ".join(audit.broken), class_="warn"))
    else:
        parts.append(said("Every limit that was set for the audit is kept.", source))
    parts.append(_models(audit))
    if audit.sums:
        parts.append(_sums(audit))
    if audit.epsilon is not None:
        words = (
            f"Epsilon {audit.epsilon.claim:g} is claimed. {audit.epsilon.n_runs:,} runs with and "
            f"without one row show that it is at least {audit.epsilon.bound:.3g}."
        )
        parts.append(said(words, source))
    parts.append(tag("ul", *(tag("li", note) for note in audit.notes)) if audit.notes else None)
    return join_html(*parts)


def _read(data: bytes, source: Source) -> _Audit:
    try:
        audit = msgspec.json.decode(data, type=_Audit)
    except msgspec.MsgspecError as error:
        raise StorageError(
            f"{str(source.path)!r} is not an audit that this Spinney reads. Audit the run again.",
            local=str(error),
        ) from None
    if audit.format != _FORMAT:
        raise StorageError(
            f"{str(source.path)!r} has audit format {audit.format}; this Spinney reads format "
            f"{_FORMAT}. Audit the run again."
        )
    return audit


def _models(audit: _Audit) -> Html:
    rates = dict.fromkeys(
        at.wanted for one in audit.models if one.membership for at in one.membership.at
    )
    headings = ["model", "small leaves", "exact counts", "rows that stand alone", "their cells"]
    headings += [f"members found at {100 * rate:g} % false alarms" for rate in rates]
    lines: list[list[Content]] = []
    for one in audit.models:
        at = {} if one.membership is None else {x.wanted: x for x in one.membership.at}
        lines.append(
            [
                one.name,
                f"{one.groups.small_leaves:,} of fewer than {one.groups.least} rows",
                "yes" if one.groups.exact_counts else "no",
                _told(one.rebuilt.isolated),
                _told(one.rebuilt.cells),
                *(_membership(at.get(rate)) for rate in rates),
            ]
        )
    return table("What attacks on a model got, with 95 % intervals", headings, lines)


def _sums(audit: _Audit) -> Html:
    lines: list[list[Content]] = [
        [one.view, _told(one.isolated), _told(one.cells)] for one in audit.sums
    ]
    headings = ["who looks", "rows that stand alone", "their cells within 2 %"]
    return table("What the sums showed while the model grew", headings, lines)


def _membership(at: _At | None) -> str:
    if at is None:
        return "not tried"
    if at.rows_needed:
        return f"too few rows to say; {at.rows_needed:,} are needed"
    return str(at.found)


def _told(share: _Share | None) -> str:
    return "not tried" if share is None else str(share)
