"""The audit of a run in the document: `audit.json` beside its report, as the page shows it."""

from spinney.report.audited import read_audit
from spinney.report.officer.sources import Source, said
from spinney.report.page.audited import what_attacks_get
from spinney.report.page.markup import Content, Html, join_html, tag
from spinney.report.words import some

_NO_LIMIT = (
    "No limit was set for the audit ([policy.audit] in a party's file), so nothing was compared: "
    "whether what it found is acceptable is for people to say."
)


def audit_section(found: tuple[bytes, Source] | None, model: Source | None) -> Html:
    """Return what the attacks got, and whether they were tried on the model of this run."""
    if found is None:
        words = (
            "No audit is in this folder: this document does not know whether anybody tried on this "
            "run what an attacker would. "
        )
        command = tag("code", "spinney audit")
        return tag("p", words, command, " on the run's folder tries it.", class_="warn")
    data, source = found
    audit = read_audit(data, str(source.path))
    parts: list[Content] = []
    if model is not None and model.digest not in [one.digest for one in audit.models]:
        words = "The audit tried another model than the one in this folder. Audit the run again."
        parts.append(tag("p", words, " ", source.mark, model.mark, class_="warn"))
    if audit.broken:
        parts.append(said(f"{some(len(audit.broken), 'limit', 'limits')} not kept.", source))
    if audit.limits:
        kept = ", ".join(f"{name} = {value:g}" for name, value in audit.limits.items())
        words = f"The audit was compared with the party's limits: {kept}."
        parts.append(said(words if audit.broken else f"{words} All are kept.", source))
    else:
        parts.append(tag("p", _NO_LIMIT, " ", source.mark, class_="warn"))
    parts.append(what_attacks_get(audit))
    return join_html(*parts)
