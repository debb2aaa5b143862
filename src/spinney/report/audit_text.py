"""An audit as lines of a table: what each view gets, before and after hardening."""

from collections.abc import Iterator

from spinney.report.audited import Audit, Rebuilt, Released, Share
from spinney.report.words import some

Line = tuple[str, ...]


def headings(audit: Audit) -> Line:
    """Return the headings of the table of models."""
    return ("what is tried", *(one.name for one in audit.models))


def model_lines(audit: Audit) -> list[Line]:
    """Return one line for each thing that was tried on a model that could leave."""
    rows = [list(_of_model(one)) for one in audit.models]
    return [
        (columns[0][0], *(value for _, value in columns)) for columns in zip(*rows, strict=True)
    ]


def _of_model(one: Released) -> Iterator[tuple[str, str]]:
    groups, rebuilt = one.groups, one.rebuilt
    yield "exact counts of rows in nodes", "yes" if groups.exact_counts else "no"
    if groups.noisy:
        yield "smallest leaf", "noisy"
    else:
        yield "smallest leaf", some(groups.smallest_leaf, "row", "rows")
    small = f"{groups.small_leaves:,} of {groups.leaves:,}"
    yield f"leaves with fewer than {groups.least} rows", "noisy" if groups.noisy else small
    cells = f"{groups.small_cells:,}"
    yield (
        f"their classes with 1 to {groups.least - 1} rows",
        "noisy" if groups.noisy else cells,
    )
    yield from _of_view(rebuilt)
    yield from _of_membership(one)
    yield from _of_attribute(one)
    yield "AUC or R2, held-out rows", "-" if one.auc is None else f"{one.auc:.3f}"


def _of_view(one: Rebuilt) -> Iterator[tuple[str, str]]:
    yield "leaves that tell of a single row", f"{one.structures:,}"
    yield "rows isolated", told(one.isolated)
    yield "their cells within 2 %", told(one.cells)
    yield "the same by guessing", _percent(one.guessed)
    yield "mean error (by guessing)", _error(one)


def _of_membership(one: Released) -> Iterator[tuple[str, str]]:
    found = one.membership
    at = {} if found is None else {each.wanted: each for each in found.at}
    for rate in (0.001, 0.01):
        name = f"members found at {100 * rate:g} % false"
        here = at.get(rate)
        if here is None:
            yield name, "not tried"
        elif here.rows_needed:
            yield name, f"needs {here.rows_needed:,} rows"
        else:
            yield name, told(here.found)
    yield "area of that attack", "not tried" if found is None else f"{found.area:.3f}"


def _of_attribute(one: Released) -> Iterator[tuple[str, str]]:
    found = one.attribute
    name = "a member's cell guessed"
    if found is None:
        yield name, "not tried"
        return
    others = f"others {_percent(found.others.share)}, blind {_percent(found.guessed)}"
    yield name, f"{found.column}: {_percent(found.members.share)} ({others})"


def sum_lines(audit: Audit) -> list[Line]:
    """Return one line for each view of the sums."""
    return [
        (one.view, told(one.isolated), told(one.cells), _percent(one.guessed), _error(one))
        for one in audit.sums
    ]


SUM_HEADINGS: Line = ("view of the sums", "rows isolated", "their cells", "by guessing", "error")


def epsilon_line(audit: Audit) -> str:
    """Return the sentence about epsilon; empty: the job claims none."""
    found = audit.epsilon
    if found is None:
        return ""
    claim = f"The job claims epsilon = {found.claim:g} for one record against a reader"
    if found.always_same:
        return f"{claim}, but {found.n_runs} runs gave the same numbers: there is no noise."
    bound = f"{found.n_runs} runs with and without one row show at least {found.bound:.2f}"
    return f"{claim}; {bound} (95 %)."


def told(share: Share | None) -> str:
    """Return a share with its interval."""
    if share is None:
        return "-"
    return f"{_percent(share.share)} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _error(one: Rebuilt) -> str:
    if one.error is None or one.guessed_error is None:
        return "-"
    return f"{one.error:.3f} ({one.guessed_error:.3f})"
