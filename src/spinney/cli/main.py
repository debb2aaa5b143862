"""The `spinney` command: argument parsing only.

Nothing heavy is imported until a command runs, so that `spinney --help` is fast.
"""

from pathlib import Path
from typing import Annotated

import typer

from spinney.cli import deployed as cli_deployed
from spinney.cli.errors import Debug, Ending, report_errors, reporting
from spinney.cli.run_names import RUN_HELP, run_called
from spinney.version import __version__

app = typer.Typer(
    name="spinney",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Federated decision trees and forests, for organisations that may not pool their rows.",
)


model = typer.Typer(no_args_is_help=True, help="Show, use and export a saved model.")


app.add_typer(model, name="model")


report = typer.Typer(no_args_is_help=True, help="Read a run's report.")


app.add_typer(report, name="report")


runs = typer.Typer(help="List past runs, or compare two.")


app.add_typer(runs, name="runs")


ledger = typer.Typer(no_args_is_help=True, help="Read a party's ledger: its spent privacy budget.")


app.add_typer(ledger, name="ledger")


app.add_typer(cli_deployed.coordinator, name="coordinator")


app.add_typer(cli_deployed.party, name="party")


app.add_typer(cli_deployed.job, name="job")


ModelFile = Annotated[
    Path, typer.Argument(help=f"{RUN_HELP}, or a model that Spinney saved.", callback=run_called)
]
_AS_AGREED = "as the run's parties agreed, otherwise %s"
Drop = Annotated[
    list[str] | None, typer.Option("--drop", help="With --label: a column to leave out; repeat it.")
]
Dates = Annotated[
    str, typer.Option("--dates", help="With --label: dates as days since 1970, or drop them.")
]
Missing = Annotated[
    list[str] | None,
    typer.Option("--na", help="With --label: a text that means missing, in any column; repeat it."),
]
Decimal = Annotated[
    str | None, typer.Option("--decimal", help="With --label: what stands before decimals, , or .")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


def _version(wanted: bool) -> None:  # noqa: FBT001  typer calls it so
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
    """Handle the options before a command."""
    del version
    context.obj = debug


@app.command()
@reporting
def demo(
    ending: Ending,
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for model and report.", show_default="spinney-demo"),
    ] = None,
    trees: Annotated[int, typer.Option(help="The number of trees in a forest.")] = 100,
    as_json: Json = False,
) -> None:
    """Train one forest over five simulated companies, and show what joining gains."""
    from spinney.simulation.progress import show_progress  # noqa: PLC0415

    with show_progress() as stages:
        stages.begin("starting")
        from spinney.simulation import demo as work  # noqa: PLC0415

        outcome = work.run_demo(trees, out, stages)
    ending.written = True
    from spinney.cli.text import show  # noqa: PLC0415

    show(outcome, work.OPENING, as_json=as_json)


@app.command()
@reporting
def simulate(
    ending: Ending,
    job: Annotated[
        Path,
        typer.Argument(help="The job file, TOML (docs/files.md); with --label, a table."),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for model and report.", show_default="runs/<job's name>"),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The column of a CSV or Parquet file to predict.")
    ] = None,
    task: Annotated[
        str, typer.Option(help="With --label: classification or regression.")
    ] = "classification",
    drop: Drop = None,
    dates: Dates = "days",
    na: Missing = None,
    decimal: Decimal = None,
    skews: Annotated[
        str | None,
        typer.Option(help="What if parties differ? Skews to try, such as 0,1,4; writes nothing."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(help="The same: how many times the smallest's rows the largest has: 1,4,16."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="The same: columns to deal the rows out by: ward,year.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a job file over one local table dealt out to parties, or one table per party."""
    from spinney.simulation.progress import show_progress  # noqa: PLC0415

    asked = {"--skews": skews, "--sizes": sizes, "--by": by}
    if swept := {option: said for option, said in asked.items() if said is not None}:
        from spinney.cli.sweeps import sweep  # noqa: PLC0415

        with show_progress() as stages:
            found = sweep(job, swept, label, out, stages)
        typer.echo(found.to_json() if as_json else str(found))
        return
    with show_progress() as stages:
        stages.begin("starting")
        from spinney.jobs.checking.notes import Choices  # noqa: PLC0415
        from spinney.simulation import run as work  # noqa: PLC0415

        choices = Choices(tuple(drop or ()), dates, tuple(na or ()), decimal)
        outcome = work.simulate(job, out, stages, label, task, choices=choices)
    ending.written = True
    from spinney.cli.text import opening, show  # noqa: PLC0415

    show(outcome, opening(outcome), as_json=as_json)


@app.command()
@reporting
def check(
    ending: Ending,
    table: Annotated[Path, typer.Argument(help="A CSV (.gz, .zst), Parquet or database file.")],
    *,
    label: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    task: Annotated[
        str | None, typer.Option(help="classification or regression.", show_default="as it looks")
    ] = None,
    drop: Drop = None,
    dates: Dates = "days",
    na: Missing = None,
    decimal: Decimal = None,
    query: Annotated[str | None, typer.Option(help="For a database: the rows to check.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write a job file to begin with.")] = None,
    as_json: Json = False,
) -> None:
    """Say what is in a table, what would go wrong and what to do; nothing leaves this machine."""
    from spinney.cli import checks as work  # noqa: PLC0415
    from spinney.jobs.checking.notes import Choices  # noqa: PLC0415
    from spinney.jobs.checking.table import check_table  # noqa: PLC0415

    choices = Choices(tuple(drop or ()), dates, tuple(na or ()), decimal)
    found = check_table(table, label, task, choices, query)
    if write is not None:
        work.write_job(found, write)
        ending.written = True
    work.show(found, write, as_json_text=as_json)


@app.command()
@reporting
def tune(
    job: Annotated[Path, typer.Argument(help="The job file, TOML.")],
    *,
    tries: Annotated[
        list[str] | None,
        typer.Option("--try", help="A setting and its values, max_depth=4,8; repeat it."),
    ] = None,
    folds: Annotated[int, typer.Option(help="How many folds the rows are divided into.")] = 3,
    epsilon: Annotated[
        float | None,
        typer.Option(help="For a job with noise: what the whole search may cost."),
    ] = None,
    kit: Annotated[
        Path | None,
        typer.Option("--kit", help="Your start kit: asks a federation, not simulated parties."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Search a job's settings by cross-validation over all parties' rows; writes nothing."""
    from spinney.simulation.progress import show_progress  # noqa: PLC0415

    with show_progress() as stages:
        stages.begin("trying settings")
        from spinney.cli.tunes import tune_job  # noqa: PLC0415

        found = tune_job(job, tries or (), folds, epsilon, kit, remark=stages.remark)
    typer.echo(found.to_json() if as_json else str(found))


@app.command()
@reporting
def audit(
    ending: Ending,
    target: Annotated[
        Path,
        typer.Argument(
            help=f"{RUN_HELP}; a saved model; or a job file (TOML), which is trained here first.",
            callback=run_called,
        ),
    ],
    *,
    job: Annotated[
        Path | None, typer.Option(help="The job file that grew the run's model.")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="Rows to audit with, instead of the job file's own tables."),
    ] = None,
    party: Annotated[
        Path | None,
        typer.Option(help="A party's file: the limits, and its rows if the job names none."),
    ] = None,
    models: Annotated[
        int, typer.Option(help="Models to train on halves of the rows, for membership.")
    ] = 16,
    runs: Annotated[
        int, typer.Option(help="Runs with and without one row, for a private job's epsilon.")
    ] = 200,
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write.", show_default="audit.json in a run's folder"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Attack a model, a run or a job, and compare what comes out with a party's limits."""
    from spinney.simulation.progress import show_progress  # noqa: PLC0415

    with show_progress() as stages:
        stages.begin("starting")
        from spinney.cli import audits as work  # noqa: PLC0415

        effort = work.Effort(models, runs)
        found, file = work.audit_target(
            target, job, table, party=party, effort=effort, out=out, stages=stages
        )
    ending.written = file is not None
    work.show(found, file, as_json=as_json)
    work.require_kept(found)


@model.command("show")
@reporting
def model_show(
    path: ModelFile,
    *,
    tree: Annotated[
        int | None, typer.Option(help="Print this tree as text; the first tree is 1.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Describe a saved model: its trees, columns and label; or print a tree as text."""
    from spinney.cli.models import describe_model, tree_as_text  # noqa: PLC0415
    from spinney.report.words import as_json as in_json  # noqa: PLC0415

    if tree is not None:
        typer.echo(tree_as_text(path, tree))
        return
    found = describe_model(path)
    typer.echo(in_json(found) if as_json else str(found))


@model.command("export")
@reporting
def model_export(
    ending: Ending,
    path: ModelFile,
    out: Annotated[Path, typer.Argument(help="The file to write.")],
    *,
    to: Annotated[
        str | None,
        typer.Option(
            help="onnx, treelite, lightgbm or spinney.", show_default="as the file's name ends"
        ),
    ] = None,
    smallest_leaf: Annotated[
        int | None,
        typer.Option(
            help="Close splits with fewer rows than this on a side.", show_default=_AS_AGREED % 5
        ),
    ] = None,
    threshold_digits: Annotated[
        int | None,
        typer.Option(help="Digits of thresholds, 15 for all.", show_default=_AS_AGREED % 4),
    ] = None,
    value_digits: Annotated[
        int | None,
        typer.Option(help="Digits of predictions, 15 for all.", show_default=_AS_AGREED % 3),
    ] = None,
    exact_counts: Annotated[
        bool | None,
        typer.Option(help="Keep exact counts of rows in nodes.", show_default=_AS_AGREED % "no"),
    ] = None,
    party: Annotated[
        str | None, typer.Option(help="The party whose tree to write, if each party has one.")
    ] = None,
) -> None:
    """Write a model for another runtime, hardened as the run's parties agreed, or by default."""
    from spinney.simulation.progress import show_progress  # noqa: PLC0415

    with show_progress() as stages:
        stages.begin(f"writing {out}")
        from spinney.cli.export import export_model  # noqa: PLC0415

        numbers = (smallest_leaf, threshold_digits, value_digits)
        done = export_model(
            path, out, to, lambda how: how.changed(*numbers, exact_counts=exact_counts), party
        )
    ending.written = True
    for step in done:
        typer.echo(f"Hardened: {step}.")
    typer.echo(f"Model   {out}")


@model.command("predict")
@reporting
def model_predict(
    ending: Ending,
    path: ModelFile,
    table: Annotated[Path, typer.Argument(help="A CSV or Parquet file with the model's columns.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="The CSV to write.", show_default="stdout")
    ] = None,
    unknown_categories: Annotated[
        str, typer.Option(help="Categories that the model does not know: refuse or as_missing.")
    ] = "refuse",
    job: Annotated[
        Path | None,
        typer.Option(help="The job file whose [table] query reads the cells, as in training."),
    ] = None,
    home: Annotated[
        Path | None, typer.Option(help="A party's fit of the model: `spinney party fit`.")
    ] = None,
) -> None:
    """Predict for every row of a file; needs no network."""
    from spinney.simulation.progress import show_progress  # noqa: PLC0415

    with show_progress() as stages:
        stages.begin(f"predicting the rows of {table}")
        from spinney.cli.export import predict_file  # noqa: PLC0415

        text, n_rows = predict_file(
            path, table, out, unknown=unknown_categories, job=job, home=home
        )
    ending.written = True
    counted = f"{n_rows} {'row' if n_rows == 1 else 'rows'}"
    typer.echo(text if out is None else f"{counted}  {out}", nl=out is not None)


@report.callback(invoke_without_command=True)
def report_alone(
    context: typer.Context,
    for_officer: Annotated[
        Path | None,
        typer.Option(
            help="Write the privacy officer's document of a run: its folder, or its name in runs/."
        ),
    ] = None,
    ledger: Annotated[
        list[Path] | None,
        typer.Option(help="With --for-officer: a party's ledger to tell the state of."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="With --for-officer: the file.", show_default="officer.html in the run"),
    ] = None,
) -> None:
    """Read a run's report, or write the document for the privacy officer."""
    if for_officer is None:
        return
    with report_errors(debug=bool(context.obj)) as ending:
        from spinney.cli.officers import write_document  # noqa: PLC0415

        target = write_document(run_called(for_officer), tuple(ledger or ()), out)
        ending.written = True
        typer.echo(f"Document  {target}")


@report.command("open")
@reporting
def report_open(
    path: Annotated[
        Path, typer.Argument(help=f"{RUN_HELP}, or a report.html.", callback=run_called)
    ],
) -> None:
    """Open a run's page in the browser; without a browser, print where the page is."""
    import webbrowser  # noqa: PLC0415

    from spinney.cli.models import page_in  # noqa: PLC0415

    page = page_in(path)
    if webbrowser.open(page.resolve().as_uri()):  # typer's `launch` does not report failures
        typer.echo(f"Opened  {page}")
    else:
        typer.echo(f"No browser found. Open the page yourself: {page}")


@report.command("show")
@reporting
def report_show(
    path: Annotated[
        Path, typer.Argument(help=f"{RUN_HELP}, or a report.json.", callback=run_called)
    ],
    *,
    as_json: Json = False,
) -> None:
    """Print a run's report as text."""
    from spinney.report.report import load_report  # noqa: PLC0415

    found = load_report(path)
    typer.echo(found.to_json() if as_json else str(found))


RunsFolder = Annotated[Path, typer.Option("--in", help="The folder that holds runs.")]


@runs.callback(invoke_without_command=True)
def runs_alone(context: typer.Context) -> None:
    """List past runs if there is no subcommand."""
    if context.invoked_subcommand is None:
        runs_list(context)


@runs.command("list")
@reporting
def runs_list(*, folder: RunsFolder = Path("runs"), as_json: Json = False) -> None:
    """List past runs and their models' scores."""
    from spinney.cli.runs import list_runs, runs_as_text  # noqa: PLC0415
    from spinney.report.words import as_json as in_json  # noqa: PLC0415

    found = list_runs(folder)
    typer.echo(in_json(found) if as_json else runs_as_text(found, folder))


@runs.command("compare")
@reporting
def runs_compare(
    first: Annotated[Path, typer.Argument(help=f"{RUN_HELP}.", callback=run_called)],
    second: Annotated[Path, typer.Argument(help="Another run.", callback=run_called)],
    *,
    as_json: Json = False,
) -> None:
    """Show two runs side by side: their scores, costs and settings."""
    from spinney.cli.runs import compare_runs  # noqa: PLC0415
    from spinney.report.words import as_json as in_json  # noqa: PLC0415

    found = compare_runs(first, second)
    typer.echo(in_json(found) if as_json else str(found))


LedgerFile = Annotated[Path, typer.Argument(help="A party's ledger file.")]


@ledger.command("show")
@reporting
def ledger_show(
    path: LedgerFile,
    *,
    job: Annotated[
        str | None, typer.Option(help="Only this job: its name, or its run's id.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what left the party, what each release cost, and the privacy guarantees."""
    from spinney.cli.ledgers import describe_ledger  # noqa: PLC0415
    from spinney.report.words import as_json as in_json  # noqa: PLC0415

    found = describe_ledger(path, job)
    typer.echo(in_json(found) if as_json else str(found))


@ledger.command("verify")
@reporting
def ledger_verify(
    path: Annotated[
        Path, typer.Argument(help="A party's file (party.toml), or a ledger file alone.")
    ],
) -> None:
    """Check that no entry was changed or lost, who signed, and that no budget was exceeded."""
    from spinney.cli.ledgers import verify_ledger  # noqa: PLC0415

    typer.echo(verify_ledger(path))


@ledger.command("backup")
@reporting
def ledger_backup(
    path: LedgerFile,
    copy: Annotated[Path, typer.Argument(help="The file for the copy; it must not exist.")],
) -> None:
    """Copy a ledger, also while its party runs; check the copy and print its last entry."""
    from spinney.cli.ledgers import backup_ledger  # noqa: PLC0415

    typer.echo(backup_ledger(path, copy))


@ledger.command("restore")
@reporting
def ledger_restore(
    copy: Annotated[Path, typer.Argument(help="A copy that 'spinney ledger backup' made.")],
    path: LedgerFile,
    *,
    forget: Annotated[
        int | None,
        typer.Option(help="Confirm that the copy lacks exactly so many entries of the ledger."),
    ] = None,
) -> None:
    """Put a copy in a ledger's place, while the party is stopped."""
    from spinney.cli.ledgers import restore_ledger  # noqa: PLC0415

    typer.echo(restore_ledger(copy, path, forget))


@ledger.command("restart")
@reporting
def ledger_restart(
    party: Annotated[Path, typer.Argument(help="The party's file, party.toml.")],
    *,
    reason: Annotated[str, typer.Option(help="Why entries are lost; all parties read it.")],
) -> None:
    """Go on although entries of the ledger are lost, and tell all parties why."""
    from spinney.deployment.party.restart import restart_ledger  # noqa: PLC0415

    typer.echo(restart_ledger(party, reason))


def main() -> None:
    """Run the command line."""
    app()
