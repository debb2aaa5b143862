"""The page's section about an audit, where the run's folder has one."""

from spinney.report.audit_text import (
    SUM_HEADINGS,
    epsilon_line,
    headings,
    model_lines,
    sum_lines,
)
from spinney.report.audited import Audit
from spinney.report.page.markup import Content, Html, join_html, table, tag

_WHAT = (
    "spinney audit tried what a reviewer would try. A share stands with its 95 % interval. An "
    "audit finds what it tried, on the rows that it had; it proves no privacy."
)


def what_attacks_get(audit: Audit) -> Html:
    """Return the section: limits first, then what each view gets."""
    parts: list[Content] = [tag("p", _WHAT, class_="soft")]
    if audit.broken:
        kept = tag("ul", *(tag("li", f"{one}.") for one in audit.broken))
        parts.append(tag("div", tag("p", "What is not kept:"), kept, class_="warn"))
    lines: list[list[Content]] = [list(line) for line in model_lines(audit)]
    parts.append(table("What a reader of the model gets", list(headings(audit)), lines))
    if audit.sums:
        sums: list[list[Content]] = [list(line) for line in sum_lines(audit)]
        parts.append(table("What the sums showed while it grew", list(SUM_HEADINGS), sums))
    if said := epsilon_line(audit):
        parts.append(tag("p", said))
    parts.extend(tag("p", note, class_="soft") for note in audit.notes)
    digests = ", ".join(f"{one.name} {one.digest[:16]}" for one in audit.models)
    parts.append(tag("p", f"Audited models, by SHA-256: {digests}.", class_="soft"))
    return join_html(*parts)
