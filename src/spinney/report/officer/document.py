"""The document: one HTML file that prints well, needs no network and runs no script."""

from pathlib import Path

import msgspec

from spinney.errors import StorageError
from spinney.protocols.model import ForestModel
from spinney.report.facts import ReportFacts
from spinney.report.file_names import AUDIT, MODEL, REPORT
from spinney.report.officer.about import ABOUT, About, about_of
from spinney.report.officer.audited import audit_section
from spinney.report.officer.claims import claims_section, odds_section
from spinney.report.officer.ledgers import ledger_section, state_of
from spinney.report.officer.risks import residual_risks
from spinney.report.officer.sources import Source, Sources, said
from spinney.report.page.markup import Content, Html, join_html, table, tag, void
from spinney.report.page.measured import numbers
from spinney.report.report import Report, load_report
from spinney.report.settings import settings_in_words
from spinney.report.verdicts import measured_in_words, verdicts
from spinney.report.words import capital, date_of, some
from spinney.tables.schema import Column, Label
from spinney.version import __version__

_NOT_STATED = f"Not stated. Say it in {ABOUT} beside the report."
_NOT_PARTIES = {
    "lead": "started the job; gets the model and the coordinator's report",
    "coordinator": "added up; holds no rows",
}
_OF_PARTY = (
    "This is the report of {}, from what it derived itself and from its records of what left it. "
    "The coordinator's report, which the lead has, says the same of the other parties."
)
_STYLE = """
body { max-width: 52rem; margin: 2rem auto; padding: 0 1rem; color: #111; background: #fff;
  font: 15px/1.45 Georgia, "Times New Roman", serif; }
h1, h2 { font-family: system-ui, sans-serif; line-height: 1.2; }
h2 { margin-top: 2rem; border-top: 1px solid #999; padding-top: 0.6rem; font-size: 1.2rem; }
table { border-collapse: collapse; width: 100%; margin: 0.6rem 0; font-size: 0.9rem; }
caption { text-align: left; font-weight: 600; padding: 0.2rem 0; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.6rem 0.25rem 0;
  border-bottom: 1px solid #ccc; overflow-wrap: break-word; }
tbody th { font-weight: 500; }
code { font-size: 0.8rem; overflow-wrap: anywhere; }
.source { font: 0.75rem system-ui, sans-serif; text-decoration: none; color: #0050a0; }
.warn { border-left: 4px solid #a04000; padding: 0.2rem 0.7rem; background: #f6f2ee; }
.sign td { height: 3.2rem; }
@media screen { section { overflow-x: auto; } }
@page { margin: 18mm; }
@media print { body { margin: 0; max-width: none; font-size: 10.5pt; } h2 { break-after: avoid; }
  tr, .warn { break-inside: avoid; } a { color: inherit; } }
"""


def officer_document(folder: Path, ledgers: tuple[Path, ...] = ()) -> str:
    """Return the document about the run in a folder.

    Parameters
    ----------
    folder
        A run's folder: `report.json`; also `model.spinney`, `audit.json` and `about.toml` if they
        are there.
    ledgers
        Ledgers of parties whose state the document tells.
    """
    sources = Sources()
    report, source = _report(folder, sources)
    model, model_source = _model(folder, sources)
    audit = _optional(folder / AUDIT, "what attacks got", sources)
    columns = () if model is None else (*model.schema.names, model.schema.label.name)
    found = _optional(folder / ABOUT, "purpose, contacts and data categories", sources)
    about = About() if found is None else about_of(found[0], report.parties, columns)
    told_in = None if found is None else found[1]
    states = [(state_of(path), sources.read(path, "a party's ledger")[1]) for path in ledgers]
    sections = {
        "Purpose": _purpose(about, told_in),
        "Parties and contacts": _parties(report, about, source, told_in),
        "Data": _data(report, model, about, model_source, told_in),
        "Who learns what": _who_learns_what(report, source),
        "What is promised": claims_section(report, source),
        "What this epsilon means for a record": odds_section(report, source),
        "How the model left": _how_it_left(report, model, source, model_source),
        "What attacks got: the audit": audit_section(audit, model_source),
        "How good the model is": _quality(report, source),
        "Ledgers": ledger_section(report, source, states),
        "Risks that are left": _risks(report, source),
        "Signature": _signature(report),
        "Files and their hashes": sources.listed(),
    }
    return _page(report, folder, sections)


def _page(report: ReportFacts, folder: Path, sections: dict[str, Html]) -> str:
    about, name = report.subject, folder.resolve().name
    what = name if about is None else f"{about.job}, which predicts {about.label}"
    title = f"For the privacy officer: {what}"
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    head = tag(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=policy),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", title),
        tag("style", Html(_STYLE)),
    )
    run = "" if about is None else f"Run {name}, {about.day}. "
    words = (
        f"{run}{capital(report.protocol.replace('_', ' '))}, "
        f"{some(len(report.parties), 'party', 'parties')}, "
        f"{some(report.n_trees, 'tree', 'trees')}. Trained with Spinney {report.version}; this "
        f"document was written by Spinney {__version__}. Letters in brackets name the file that a "
        "statement comes from; the last section has each file's SHA-256."
    )
    body = tag(
        "body",
        tag("h1", title),
        tag("p", words),
        *([tag("p", report.of_simulation, class_="warn")] if report.simulated else []),
        *([tag("p", _OF_PARTY.format(report.told_by))] if report.told_by else []),
        *(
            tag("section", tag("h2", f"{number}. {name}"), content)
            for number, (name, content) in enumerate(sections.items(), 1)
        ),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _report(folder: Path, sources: Sources) -> tuple[Report, Source]:
    path = folder / REPORT
    if not path.is_file():
        raise StorageError(
            f"{str(folder)!r} holds no {REPORT}, from which the document is made. Name a run's "
            "folder ('spinney runs' lists them), or that of a finished run in a party's records. A "
            "party that did not derive its run's model has no report of its own: ask the lead for "
            "it. What left a party is in its disclosures.jsonl, also before a run has finished."
        )
    _, source = sources.read(path, "the report: what was asked, what left, what is promised")
    return load_report(path), source


def _model(folder: Path, sources: Sources) -> tuple[ForestModel | None, Source | None]:
    found = _optional(folder / MODEL, "the model that left, with its schema", sources)
    if found is None:
        return None, None
    return ForestModel.from_bytes(found[0], name=str(folder / MODEL)), found[1]


def _optional(path: Path, holds: str, sources: Sources) -> tuple[bytes, Source] | None:
    return sources.read(path, holds) if path.is_file() else None


def _marked(text: str, source: Source | None) -> Html:
    if not text or source is None:
        return tag("p", _NOT_STATED, class_="warn")
    return said(text, source)


def _purpose(about: About, source: Source | None) -> Html:
    return join_html(
        _marked(about.purpose, source),
        tag("p", tag("strong", "Legal basis")),
        _marked(about.legal_basis, source),
    )


def _parties(report: ReportFacts, about: About, source: Source, told_in: Source | None) -> Html:
    lines: list[list[Content]] = [
        [
            name,
            "left before the end" if name in report.dropped else "took part to the end",
            about.contacts.get(name, "not stated"),
        ]
        for name in report.parties
    ]
    lines += [
        [name, part, about.contacts.get(name, "not stated")]
        for name, part in _NOT_PARTIES.items()
        if name in about.contacts or not report.simulated
    ]
    words = "Each party kept its rows. The coordinator holds none."
    both = (source,) if told_in is None else (source, told_in)
    found = table("Parties", ["who", "part", "contact"], lines)
    return join_html(said(words, *both), found, _rules(report, source))


def _rules(report: ReportFacts, source: Source) -> Html:
    """Return the rules of the policy of the party whose report this is."""
    if report.simulated:
        return join_html()
    if not report.rules:
        words = "The rules of a party's policy stand in that party's own document."
        return said(words, source)
    words = (
        f"The rules of the policy ([policy] in its file) of {report.told_by}, as they held when "
        "the run ended. It refuses a job that breaks one of them."
    )
    lines: list[list[Content]] = [[rule, told] for rule, told in report.rules.items()]
    return join_html(said(words, source), table("Policy", ["rule", "says"], lines))


def _data(
    report: ReportFacts,
    model: ForestModel | None,
    about: About,
    source: Source | None,
    told_in: Source | None,
) -> Html:
    if model is None or source is None:
        words = "There is no model in this folder, so its columns are not known here."
        return tag("p", words, class_="warn")
    dates = () if report.subject is None else report.subject.dates
    places: list[tuple[Column | Label, str]] = [
        (model.schema.label, "label: what the model predicts"),
        *((column, "column") for column in model.schema.columns),
    ]
    lines: list[list[Content]] = [
        [
            place.name,
            role,
            _public_facts(place, dates),
            about.data_categories.get(place.name, "not stated"),
        ]
        for place, role in places
    ]
    both = (source,) if told_in is None else (source, told_in)
    return join_html(
        said("Names, kinds, ranges and categories of columns are public in this run.", *both),
        table("Data categories", ["name", "part", "public facts", "category of data"], lines),
    )


def _public_facts(place: Column | Label, dates: tuple[str, ...]) -> str:
    listed = place.classes if isinstance(place, Label) else place.categories
    if listed is not None:
        return f"one of {', '.join(map(str, listed))}"
    if place.range is not None and place.name in dates:
        return f"date from {date_of(place.range[0])} to {date_of(place.range[1])}"
    if place.name in dates:
        return "date"
    if place.range is not None:
        return f"number from {place.range[0]:g} to {place.range[1]:g}"
    return place.kind


def _who_learns_what(report: ReportFacts, source: Source) -> Html:
    lines: list[list[Content]] = [
        [
            entry.statistic,
            entry.seen_by,
            _breakable(entry.protection),
            f"{entry.times:,}",
            f"{sum(entry.bytes_up.values()):,}",
        ]
        for entry in report.disclosures
    ]
    headings = ["what left", "who sees it", "protection", "times", "bytes"]
    words = (
        "All that was asked of the parties in this run. A party's own record has every reply, also "
        "those of earlier attempts, and that it told how many entries its ledger has."
    )
    if report.simulated:
        words = "All that was asked of the parties in this run. Nothing else left them."
    if report.told_by:
        words = f"All that left {report.told_by} in this run, by its own record."
    return join_html(
        said(words, source),
        table("What left the parties", headings, lines),
        said(_seen_by_parties(report), source),
    )


def _breakable(protection: str) -> Html:
    """Return how a reply was protected; a digest in it may break, and widens no column."""
    words, mark, digest = protection.partition("; sha256 ")
    return join_html(words, mark, tag("code", digest)) if mark else join_html(words)


def _seen_by_parties(report: ReportFacts) -> str:
    """Say what the other parties see, beside the coordinator and the lead."""
    everybody = "Every party and the lead get the model; the lead gets the coordinator's report."
    if report.holders:
        return f"{everybody} What a party learns of another's columns is in the table above."
    verdicts = {claim.verdict for claim in report.privacy if claim.view == "party"}
    if "UNPROTECTED" in verdicts:
        return (
            f"{everybody} While the model grew, every party was also told the sums of the table, "
            "so that it can check the coordinator; it can take its own numbers off and so sees the "
            "sum of all others. Of two parties, that is the other's."
        )
    return (
        f"{everybody} Sums that parties were told, so that they can check the coordinator, are "
        "those of the table, with the same noise or masks; section 5 says what holds against any "
        "other party."
    )


def _how_it_left(
    report: ReportFacts, model: ForestModel | None, source: Source, model_source: Source | None
) -> Html:
    parts: list[Content] = []
    if model is not None and model_source is not None:
        terms = model.released
        words = (
            "The model left as it was trained, with exact counts."
            if terms is None
            else f"The model was hardened before it left, with {terms.in_words()}."
        )
        if model.noise is not None:
            words += " Its counts carry noise: no leaf was closed and no count rounded."
        parts.append(said(words, model_source))
    if report.hardened:
        parts.append(said("What was done, and what left since:", source))
        parts.append(tag("ul", *(tag("li", step) for step in report.hardened)))
    if report.weaker:
        parts.append(said("By what the job was weaker than the defaults:", source))
        parts.append(tag("ul", *(tag("li", way) for way in report.weaker)))
    settings = settings_in_words(msgspec.to_builtins(report.settings))
    shown: list[list[Content]] = [list(one) for one in settings.items()]
    parts.append(
        tag(
            "details",
            tag("summary", "Settings of the job"),
            table("Settings", ["setting", "value"], shown),
            open=True,
        )
    )
    return join_html(*parts)


def _quality(report: ReportFacts, source: Source) -> Html:
    parts: list[Content] = []
    if report.evaluation is not None:
        words = "Measured with noise, which the ledgers paid for, on the model that left:"
        parts += [said(words, source), tag("p", measured_in_words(report))]
        parts.append(numbers(report.evaluation))
    if report.quality:
        parts.append(_scores(report, source))
    elif not parts:
        later = " The lead's report shows an evaluation, if there was one." * bool(report.told_by)
        parts.append(said(f"Quality was not measured in this run.{later}", source))
    return join_html(*parts)


def _scores(report: ReportFacts, source: Source) -> Html:
    """Return the scores that were counted without noise."""
    lines: list[list[Content]] = [
        [
            one.party,
            f"{one.n_rows:,} {one.rows}",
            ", ".join(f"{name} {score:.3f}" for name, score in one.scores.items()),
        ]
        for one in report.quality
    ]
    told = " ".join(verdicts(report))
    words = f"{told} Scores are exact counts, of the model before it was hardened."
    if report.is_private:
        words += " No epsilon covers them."
    found = table("Scores without noise", ["party", "rows", "scores"], lines)
    return join_html(said(words, source), found)


def _risks(report: ReportFacts, source: Source) -> Html:
    risks = tag("ul", *(tag("li", one) for one in residual_risks(report)))
    return join_html(said("As the report shows them:", source), risks)


def _signature(report: ReportFacts) -> Html:
    lines: list[list[Content]] = [[name, "", "", ""] for name in report.parties]
    headings = ["party", "name", "date", "signature"]
    return table("Read and agreed", headings, lines, class_="sign")
