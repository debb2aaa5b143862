"""The `spinney` command: argument parsing only.

Nothing heavy is imported until a command runs, so that `spinney --help` answers at once.
"""

from pathlib import Path
from typing import Annotated

import typer

from spinney import __version__
from spinney.service import cli_deployed
from spinney.service.exits import told

app = typer.Typer(
    name="spinney",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Decision trees and forests grown together by organisations that may not pool their rows.",
)
model = typer.Typer(no_args_is_help=True, help="Look at a saved model.")
app.add_typer(model, name="model")
ledger = typer.Typer(no_args_is_help=True, help="Read a party's ledger: what its data has cost.")
app.add_typer(ledger, name="ledger")
app.add_typer(cli_deployed.coordinator, name="coordinator")
app.add_typer(cli_deployed.party, name="party")
app.add_typer(cli_deployed.job, name="job")

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


def _version(wanted: bool) -> None:  # noqa: FBT001  typer's way of calling
    if wanted:
        typer.echo(f"spinney {__version__}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    *,
    debug: Debug = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that stand before a command."""
    del version
    context.obj = debug


@app.command()
def demo(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="The folder for model and report.")] = Path(
        "spinney-demo"
    ),
    trees: Annotated[int, typer.Option(help="How many trees a forest has.")] = 100,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Five simulated companies grow one forest, and see what joining brings."""
    with told(debug=debug or context.obj) as ending:
        from spinney.service.progress import shown  # noqa: PLC0415

        with shown() as stages:
            stages.begin("starting")
            from spinney.service import demo as work  # noqa: PLC0415

            outcome = work.run_demo(trees, out, stages)
        ending.written = True
        from spinney.service.showing import show  # noqa: PLC0415

        show(outcome, work.OPENING, as_json=as_json)


@app.command()
def simulate(
    context: typer.Context,
    job: Annotated[Path, typer.Argument(help="The job file, TOML; docs/files.md describes it.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for model and report.", show_default="runs/<job's name>"),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run a job file over one local table dealt out to parties, or one table per party."""
    with told(debug=debug or context.obj) as ending:
        from spinney.service.progress import shown  # noqa: PLC0415

        with shown() as stages:
            stages.begin("starting")
            from spinney.service import simulation as work  # noqa: PLC0415

            outcome = work.simulate(job, out, stages)
        ending.written = True
        from spinney.service.showing import opening, show  # noqa: PLC0415

        show(outcome, opening(outcome), as_json=as_json)


@model.command("show")
def model_show(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help="A model that Spinney saved, or a run's folder.")],
    *,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what a saved model is: its trees, its columns, its label."""
    with told(debug=debug or context.obj):
        from spinney.service.models import described  # noqa: PLC0415

        found = described(path)
        typer.echo(found.to_json() if as_json else str(found))


LedgerFile = Annotated[Path, typer.Argument(help="A party's ledger file.")]


@ledger.command("show")
def ledger_show(
    context: typer.Context,
    path: LedgerFile,
    *,
    job: Annotated[str | None, typer.Option(help="Only this job.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what left the party, what each release cost, and what that promises to whom."""
    with told(debug=debug or context.obj):
        from spinney.service.ledgers import described  # noqa: PLC0415

        found = described(path, job)
        typer.echo(found.to_json() if as_json else str(found))


@ledger.command("verify")
def ledger_verify(context: typer.Context, path: LedgerFile, *, debug: Debug = False) -> None:
    """Check that no entry was changed or lost, and that no budget was passed."""
    with told(debug=debug or context.obj):
        from spinney.service.ledgers import verified  # noqa: PLC0415

        typer.echo(verified(path))


def main() -> None:
    """Run the command line."""
    app()
