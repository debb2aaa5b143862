"""What the site takes from the code itself, so that it cannot go stale.

A line `::: protocols` becomes the docstrings of the protocols, in the order of `PROTOCOLS`;
`::: messages` what every question asks and reveals; `::: api` the public names' docstrings;
`::: examples` the numbered scripts, run while the site is built, with what they print and draw.
`SPINNEY_DOCS_QUICK=1` leaves the scripts unrun, for tests that run them elsewhere.
"""

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spinney

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PROTOCOLS = (  # packages and modules of `spinney.protocols`; each docstring says who learns what
    "horizontal_forest",
    "horizontal_boosting",
    "extra_trees",
    "private_tree",
    "private_boosting",
    "private_forest",
    "genetic_tree",
    "genetic_tree.noisy",
    "vertical_forest",
    "vertical_boosting",
    "columns.matching",
    "columns.matched",
    "columns.encrypted_coordinator",
    "columns.prediction",
    "row_forest.noisy_rows",
    "secure_sums.channel",
    "secure_sums.roster",
    "accounts.account",
    "table_fit",
    "explanation",
    "private_evaluation",
)
_PICTURES: dict[str, bytes] = {}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what a page takes from the code."""
    makers = {"protocols": _protocols, "messages": _messages, "api": _api, "examples": _examples}
    return re.sub(
        r"^::: (\w+)$", lambda found: "\n\n".join(makers[found[1]]()), markdown, flags=re.MULTILINE
    )


def on_post_build(config: Any, **_: Any) -> None:
    """Put the examples' pictures beside their page."""
    for name, picture in _PICTURES.items():
        place = Path(config["site_dir"]) / "examples" / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(picture)


def _protocols() -> Iterator[str]:
    for name in PROTOCOLS:
        place = ROOT.joinpath("src", "spinney", "protocols", *name.split("."))
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        yield f"## {name}"
        yield ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _messages() -> Iterator[str]:
    from spinney.deployment import questions as deployed  # noqa: PLC0415
    from spinney.jobs.registry import SPECS  # noqa: PLC0415  loads every protocol
    from spinney.protocols import explanation, private_evaluation, table_fit  # noqa: PLC0415
    from spinney.protocols.secure_sums import channel, roster  # noqa: PLC0415
    from spinney.protocols.spec import ColumnsSpec  # noqa: PLC0415
    from spinney.protocols.verified import messages as steps  # noqa: PLC0415

    for spec in SPECS.values():
        yield f"## {spec.name}"
        yield _asks(spec.asks, spec.summed)
        if isinstance(spec, ColumnsSpec):
            yield "To predict with a finished forest:"
            yield _asks(spec.prediction_asks)
    yield "## Before a job"
    yield "To compare the parties' tables (`spinney job check`):"
    yield _asks(table_fit.SUMMED, table_fit.SUMMED)
    yield "## After training"
    yield (
        "To evaluate and explain a finished model over rows, in a simulation without noise and in "
        "a deployed evaluation:"
    )
    yield _asks(_in(explanation), explanation.SUMMED)
    yield "To evaluate it with noise that parties pay for:"
    yield _asks(private_evaluation.ASKS, private_evaluation.SUMMED)
    yield "## Steps"
    yield (
        "In a deployed job over rows the coordinator sends none of the questions above. It asks "
        "for the next step, and a party derives the step's question itself:"
    )
    yield _asks(_in(steps))
    yield "## Secure sums"
    yield "With `secure_sum` a question whose replies are summed is wrapped in these:"
    yield _asks([*_in(roster), *_in(channel)])
    yield "## Deployed jobs"
    yield _asks(_in(deployed))


def _in(module: Any) -> list[Any]:
    """Return the questions that a module defines, in its order."""
    from spinney.transport.channel import Ask  # noqa: PLC0415

    own = (thing for thing in vars(module).values() if isinstance(thing, type))
    return [one for one in own if issubclass(one, Ask) and one.__module__ == module.__name__]


def _asks(asks: Iterable[Any], summed: Collection[Any] = ()) -> str:
    """Return questions as a table: what each reveals, and what the coordinator sees."""
    rows = ["| question | what a reply reveals | the coordinator sees |", "|---|---|---|"]
    for ask in asks:
        seen = "each party's reply"
        if ask in summed:
            seen += "; with `secure_sum` only the sum"
        elif ask.refused_under_masks:
            seen += "; never asked with `secure_sum`"
        rows.append(f"| `{ask.__name__}` | {ask.reveals} | {seen} |")
    return "\n".join(rows)


def _api() -> Iterator[str]:
    for name in spinney.__all__:
        if name == "__version__":
            continue
        thing = getattr(spinney, name)
        yield f"## {name}"
        yield f"```text\n{name}{inspect.signature(thing)}\n```"
        yield f"```text\n{inspect.getdoc(thing)}\n```"


def _examples() -> Iterator[str]:
    for path in EXAMPLES:
        code = path.read_text(encoding="utf-8")
        story, _, detail = (ast.get_docstring(ast.parse(code)) or "").partition("\n")
        body = code.split('"""', 2)[2].strip()
        yield f"## {path.stem[:2]}. {story}"
        yield detail.strip()
        yield f"```python\n{body}\n```"
        if os.environ.get("SPINNEY_DOCS_QUICK") != "1":
            yield from _outcome(path)


def _outcome(path: Path) -> Iterator[str]:
    """Run an example; give what it prints, and its picture."""
    with TemporaryDirectory() as folder:
        done = subprocess.run(  # noqa: S603  our own script
            [sys.executable, "-W", "ignore", str(path)],
            cwd=folder,
            env={**os.environ, "MPLBACKEND": "agg"},
            capture_output=True,
            text=True,
            check=True,
        )
        picture = f"{path.stem}.png"
        _PICTURES[picture] = (Path(folder) / picture).read_bytes()
    yield f"```text\n{done.stdout.strip()}\n```"
    yield f'<img src="{picture}" alt="What {path.name} draws" style="max-width: 100%">'
