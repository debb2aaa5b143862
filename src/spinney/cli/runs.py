"""`spinney runs`: list the runs in a folder, or compare two."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from spinney.errors import StorageError
from spinney.report.file_names import DEMO, REPORT, RUNS
from spinney.report.render import size
from spinney.report.report import Report, load_report
from spinney.report.settings import settings_in_words
from spinney.report.verdicts import score_names
from spinney.report.words import some


class RunLine(msgspec.Struct, frozen=True):
    """A few facts about one run; `problem` says why its report cannot be read."""

    run: str
    protocol: str = ""
    n_parties: int = 0
    n_trees: int = 0
    depth: int = 0
    rounds: int = 0
    seconds: float = 0.0
    scores: dict[str, float] = {}  # means over parties
    problem: str = ""
    ended: str = ""  # why training stopped early


def list_runs(folder: Path) -> tuple[RunLine, ...]:
    """Return the runs in a folder, by name."""
    demos = Path().glob(f"{DEMO}*/{REPORT}") if folder == Path(RUNS) else ()
    found = [path.parent for path in sorted(demos)]
    if not folder.is_dir() and not found:
        raise StorageError(
            f"There is no folder {str(folder)!r}. Give the folder that holds your runs."
        )
    found += sorted(path.parent for path in folder.glob(f"*/{REPORT}"))
    return tuple(_line(path) for path in found)


def runs_as_text(lines: tuple[RunLine, ...], folder: Path) -> str:
    """Return the list as text."""
    if not lines:
        return f"No run in {str(folder)!r} yet. `spinney simulate` writes one."
    width = max(len(line.run) for line in lines)
    told = []
    for line in lines:
        if line.problem:
            told.append(f"{line.run:<{width}}  {line.problem}")
            continue
        if line.ended:
            told.append(f"{line.run:<{width}}  {line.protocol}  stopped early: {line.ended}")
            continue
        scores = "  ".join(f"{name} {score:.3f}" for name, score in line.scores.items())
        parties = some(line.n_parties, "party", "parties")
        trees = some(line.n_trees, "tree", "trees")
        told.append(
            f"{line.run:<{width}}  {line.protocol}  {parties}  {trees}, depth {line.depth}  "
            f"{scores}  {line.seconds:.1f} s"
        )
    return "\n".join(told)


class RunComparison(msgspec.Struct, frozen=True):
    """Two runs, fact by fact."""

    runs: tuple[str, str]
    facts: dict[str, tuple[str, str]]
    different_settings: dict[str, tuple[str, str]]
    warning: str = ""  # why the scores of the two cannot be compared

    def __str__(self) -> str:
        rows = [("", *self.runs), *((name, *both) for name, both in self.facts.items())]
        lines = [*_aligned(rows), *(["", self.warning] if self.warning else [])]
        if not self.different_settings:
            return "\n".join([*lines, "", "Both runs have the same settings."])
        told = _aligned([(name, *both) for name, both in self.different_settings.items()])
        return "\n".join([*lines, "", "Settings that differ:", *told])


_FACTS: dict[str, Callable[[Report], str]] = {
    "predicts": lambda r: "-" if r.subject is None else r.subject.label,
    "protocol": lambda r: r.protocol,
    "parties": lambda r: str(len(r.parties)),
    "trees": lambda r: str(r.n_trees),
    "depth": lambda r: str(r.depth),
    "nodes": lambda r: f"{r.n_nodes:,}",
    "noise": lambda r: "yes" if r.is_private else "no",
    "ended early": lambda r: r.ended or "no",
    "rounds": lambda r: str(r.rounds),
    "from the busiest party": lambda r: size(max(r.bytes_up.values(), default=0)),
    "seconds": lambda r: f"{sum(r.seconds.values()):.2f}",
}


def compare_runs(first: Path, second: Path) -> RunComparison:
    """Return two runs side by side."""
    a, b = load_report(first), load_report(second)
    facts = {name: (of(a), of(b)) for name, of in _FACTS.items()}
    scores_a, scores_b = mean_scores(a), mean_scores(b)
    for name in dict.fromkeys([*scores_a, *scores_b]):
        facts[f"mean {name}"] = (_score(scores_a, name), _score(scores_b, name))
    of_a, of_b = settings_in_words(a.settings), settings_in_words(b.settings)
    settings = {
        name: (of_a.get(name, "-"), of_b.get(name, "-"))
        for name in dict.fromkeys([*of_a, *of_b])
        if of_a.get(name) != of_b.get(name)
    }
    return RunComparison((str(first), str(second)), facts, settings, _unlike(a, b))


def _unlike(a: Report, b: Report) -> str:
    """Say that two runs do not predict the same; empty if they do, or if they do not say it."""
    if a.subject is None or b.subject is None or a.subject.label == b.subject.label:
        return ""
    return (
        f"These runs predict different labels, {a.subject.label!r} and {b.subject.label!r}: their "
        "scores cannot be compared."
    )


def mean_scores(report: Report) -> dict[str, float]:
    """Return the model's mean scores, with the same weight for every party."""
    found = {}
    for name in score_names(report.quality):
        known = [q.scores[name] for q in report.quality if name in q.scores]
        found[name] = round(sum(known) / len(known), 6)
    return found


def _score(scores: dict[str, float], name: str) -> str:
    return f"{scores[name]:.4f}" if name in scores else "-"


def _line(folder: Path) -> RunLine:
    try:
        report = load_report(folder)
    except StorageError as error:
        return RunLine(folder.name, problem=str(error.public))
    return RunLine(
        folder.name,
        report.protocol,
        len(report.parties),
        report.n_trees,
        report.depth,
        report.rounds,
        round(sum(report.seconds.values()), 6),
        mean_scores(report),
        ended=report.ended,
    )


def _aligned(rows: list[tuple[str, str, str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    padded = (zip(row, widths, strict=True) for row in rows)
    return ["  ".join(f"{cell:<{w}}" for cell, w in row).rstrip() for row in padded]
