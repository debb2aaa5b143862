"""Deployed jobs as text for a terminal, and as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Any, Final

from spinney.deployment.client import Proposal
from spinney.deployment.condition import in_utc, in_words
from spinney.deployment.coordinator.runs import FINISHED, PAUSED, RUNNING, Status
from spinney.deployment.job import CHECK, EVALUATE, PREDICT, PROPOSE, TRAIN
from spinney.deployment.party.progress import progress_in
from spinney.report.file_names import MODEL
from spinney.report.words import some
from spinney.typing import step_under_way

_KINDS: Final = {
    PROPOSE: "proposal",
    EVALUATE: "evaluation",
    PREDICT: "prediction",
    CHECK: "comparison of tables",
}


def printable(text: str, most: int = 1000) -> str:
    """Return another side's words for a terminal or a file: short, and without control codes."""
    kept = "".join(letter if letter.isprintable() else " " for letter in text[:most])
    return kept if len(text) <= most else f"{kept}..."


def line_of(status: Status) -> str:
    """Return a run's name and status in one line."""
    return f"{status.name} {status.run[:8]}: {standing_of(status)}"


def standing_of(status: Status) -> str:
    """Return the status of a run in words."""
    kind = f"{_KINDS[status.kind]} " if status.kind in _KINDS else ""
    parts = [f"{kind}{_answered(status) or status.state}"]
    if status.state == RUNNING:
        number = step_under_way(status.level, status.levels)
        level = f" {status.step} {number}" if number else ""
        of = f" of {status.levels}" if status.levels > 0 else ""
        trees = f" {some(status.trees, 'tree', 'trees')}," if level and status.trees else ""
        phase = status.phase or "starting"
        parts.append(f"{phase}{trees}{level}{of}, round {status.rounds + 1}")
        if status.question:
            heard = f"{len(status.answered)} of {len(status.present)} answered"
            parts.append(f"{status.question}: {heard}")
        left = seconds_left(status)
        if left is not None:
            parts.append(f"about {left:.0f} s left")
    if status.attempt > 1:
        parts.append(f"attempt {status.attempt}")
    if status.message:
        parts.append(status.message)
    return "; ".join(parts)


def _answered(status: Status) -> str:
    """Return how the parties answered a proposal; empty for anything else."""
    if status.kind != PROPOSE or status.state != FINISHED or not status.answers:
        return ""
    against = [name for name, reason in status.answers.items() if reason]
    return f"declined by {', '.join(against)}" if against else "accepted by all parties"


def seconds_left(status: Status) -> float | None:
    """Return an estimate of the time left, from the steps done; None if there is none."""
    if status.levels <= 0 or status.level < 2:
        return None
    done = status.updated - status.since
    return done / status.level * (status.levels - status.level)


def page_of(status: Status) -> str:
    """Return all facts about a run, one per line."""
    facts = {
        "run": status.run,
        "job": status.name,
        "kind": "training" if status.kind == TRAIN else _KINDS.get(status.kind, status.kind),
        "state": _answered(status) or status.state,
        "parties": ", ".join(status.parties),
        "dropped": ", ".join(name for name in status.parties if name not in status.present),
        "attempt": str(status.attempt) if status.attempt > 1 else "",
        "rounds": f"{status.rounds} completed",
        "phase": "" if status.is_over else status.phase,
        "question": status.question if status.state == RUNNING else "",
        "answered": ", ".join(status.answered) if status.state == RUNNING else "",
        "message": status.message,
        "answers": "\n".join(
            f"{name}: {_answer(reason, audits=name in status.auditing)}"
            for name, reason in status.answers.items()
        ),
        "found": "" if status.fit is None else str(status.fit),
        "to go on": f"spinney job resume {status.run[:8]} JOB.toml" * (status.state == PAUSED),
    }
    if status.begun:
        facts["time"] = f"{(status.updated if status.is_over else time()) - status.begun:.0f} s"
    lines = {key: value.replace("\n", "\n" + " " * 10) for key, value in facts.items() if value}
    return "\n".join(f"{key + ':':<10}{value}" for key, value in lines.items())


def _answer(reason: str, *, audits: bool) -> str:
    """Return a party's answer to a proposal; the reason is the party's own words."""
    if reason:
        return f"no: {printable(reason)}"
    return "yes; it audits the model before anybody is handed it" if audits else "yes"


def proposal(made: Proposal) -> str:
    """Return the parties' answers to a job and its cost, as a table."""
    width = max(map(len, made.answers))
    lines = [f"{made.name}: nothing was started."]
    lines += [
        f"  {name:<{width}}  {_answer(reason, audits=name in made.auditing)}"
        for name, reason in made.answers.items()
    ]
    lines.append(f"cost to each party: {made.cost}")
    return "\n".join(lines)


def party_page(facts: dict[str, Any], runs: Sequence[dict[str, Any]]) -> str:
    """Return the status of a party."""
    lines = _lines_of(facts)
    if runs:
        lines.append("runs, with the replies that left this party:")
    lines += [
        f"  {run['run'][:8]}  {run.get('job', '')}: {some(run['releases'], 'reply', 'replies')}, "
        f"the last at {in_utc(run['last'])}; "
        f"{'the model is kept here' if run['has_model'] else 'answered up to ' + run['progress']}"
        for run in runs
    ]
    return "\n".join([*lines, *_warnings(facts)])


def coordinator_page(facts: dict[str, Any]) -> str:
    """Return the status of a coordinator."""
    return "\n".join([*_lines_of(facts), *_warnings(facts)])


def _lines_of(facts: dict[str, Any]) -> list[str]:
    """Return facts in lines, their values in one column."""
    shown = {key: value for key, value in facts.items() if key not in ("left", "warnings")}
    words = in_words(shown)
    width = max(map(len, words)) + 2
    if left := facts.get("left"):  # "budget" is the first of them, for one unit
        units = [f"{amount} left for {unit}" for unit, amount in left.items()]
        words["budget"] = ("\n" + " " * width).join(units)
    return [f"{key + ':':<{width}}{value}" for key, value in words.items()]


def _warnings(facts: dict[str, Any]) -> list[str]:
    return [f"warning: {words}" for words in facts.get("warnings", ())]


def releases_in(records: Path) -> list[dict[str, Any]]:
    """Return what left the party, run by run, from its disclosure records."""
    found = []
    for path in sorted((records / "runs").glob("*/disclosures.jsonl")):
        entries = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        if entries:
            progress = progress_in(path.parent)
            found.append(
                {
                    "run": path.parent.name,
                    "job": progress.job if progress else "",
                    "releases": len(entries),
                    "bytes": sum(int(entry["bytes"]) for entry in entries),
                    "last": entries[-1]["at"],
                    "has_model": (path.parent / MODEL).exists(),
                    "progress": str(progress or ""),
                }
            )
    return found
