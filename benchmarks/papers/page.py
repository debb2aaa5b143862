"""docs/results.md: text and tables of docs/results/*.json, and nothing else.

The text is in text/*.md. Numbers that we found stand there as {facts}; a line `[table: title]` or
`[picture: name]` is replaced by that table or picture.
"""

import json
import re
from pathlib import Path
from typing import Any

from harness import as_text
from papers.experiment import NAMES
from papers.showing import PUBLISHED

PAGE = PUBLISHED.parent / "results.md"
_TEXT = Path(__file__).parent / "text"
_MADE = "<!-- made by `python -m papers page` from docs/results/*.json: do not edit -->\n"


def write() -> None:
    """Write the page."""
    PAGE.write_text(made(), encoding="utf-8")
    print(PAGE)


def made() -> str:
    """Return the page that the published files give."""
    parts = [_MADE + (_TEXT / "start.md").read_text(encoding="utf-8").strip()]
    parts += [_section(name) for name in (*NAMES, "peers_public", "peers_private")]
    return "\n\n".join(parts) + "\n"


def _section(name: str) -> str:
    path = PUBLISHED / f"{name}.json"
    if not path.exists():
        how = "peers" if name.startswith("peers") else f"papers {name} --show"
        raise SystemExit(f"{path} is missing: run `python -m {how} --publish`.")
    found = json.loads(path.read_text(encoding="utf-8"))
    text = (_TEXT / f"{name}.md").read_text(encoding="utf-8").strip()
    try:
        text = text.format(**found["facts"])
    except KeyError as error:
        raise SystemExit(f"{path} has no fact {error}, which text/{name}.md names.") from None
    tables = {table["title"]: table for table in found["tables"]}
    pictures = {Path(file).stem.removeprefix(f"{name}_"): file for file in found["pictures"]}
    lines = []
    for line in text.splitlines():
        asked = re.fullmatch(r"\[(table|picture): (.+)\]", line)
        if asked is None:
            lines.append(line)
        elif asked[1] == "table" and asked[2] in tables:
            lines.append(_as_markdown(tables[asked[2]]))
        elif asked[1] == "picture" and asked[2] in pictures:
            words = asked[2].replace("_", " ").capitalize()
            lines.append(f"![{words}](results/{pictures[asked[2]]})")
        else:
            raise SystemExit(f"{path} has no {asked[0]}, which text/{name}.md asks for.")
    return "\n".join([*lines, "", _origin(found)])


def _as_markdown(table: dict[str, Any]) -> str:
    """Return a table as Markdown, under its title."""
    rows = table["rows"]
    heads = list(dict.fromkeys(head for row in rows for head in row))
    note = f". {table['note']}" if table["note"] else ""
    lines = [f"**{table['title']}**{note}.", "", _row(heads), _row(["---"] * len(heads))]
    lines += [_row([_cell(row.get(head)) for head in heads]) for row in rows]
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: Any) -> str:
    return "" if value is None else as_text(value).replace("|", "\\|").replace("*", "\\*")


def _origin(found: dict[str, Any]) -> str:
    """Say where the numbers of a section come from."""
    name, cells = found["name"], found["cells"]
    runs = "; ".join(
        f"{run['cells']} cells at commit `{run['commit']}` ({run['when'][:10]}, "
        f"{run['machine']['cores']} cores of {run['machine']['cpu']}, "
        f"Python {run['versions']['python']}, noise {run['noise']}{_noted(run)})"
        for run in found["runs"]
    )
    hours = found.get("hours", {})
    times = "".join(
        f" The {name} setting takes about {_duration(hours[setting] / 2)} on two free cores."
        for name, setting in (("FAST", "fast"), ("full", "full"))
        if hours.get(setting)
    )
    return (
        f"*Numbers: [{name}.json](results/{name}.json), all tables included; {cells['stored']} of "
        f"the {cells['wanted']} cells of the full setting: {runs}.{times}*"
    )


def _noted(run: dict[str, Any]) -> str:
    return f"; {run['note']}" if "note" in run else ""


def _duration(hours: float) -> str:
    if hours >= 1:
        return f"{hours:.1f} hours"
    return f"{60 * hours:.0f} minutes" if hours >= 1 / 40 else "a minute"
