"""The commands of deployed jobs: `spinney coordinator`, `spinney party`, `spinney job`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from spinney.cli.errors import reporting
from spinney.errors import SettingError
from spinney.report.words import as_json as in_json

coordinator = typer.Typer(no_args_is_help=True, help="Run a federation's coordinator.")
party = typer.Typer(no_args_is_help=True, help="Take part in a federation with your own table.")
job = typer.Typer(no_args_is_help=True, help="Propose, start and watch jobs of a federation.")
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
CoordinatorFile = Annotated[Path, typer.Argument(help="The coordinator's file, TOML.")]
PartyFile = Annotated[Path, typer.Argument(help="The party's file, TOML.")]
JobFile = Annotated[Path, typer.Argument(help="The job file, TOML.")]
Run = Annotated[str, typer.Argument(help="A run: its id, the start of its id, or its job's name.")]

Follow = Annotated[
    bool, typer.Option("--follow", help="Watch the run until it is over, and download its model.")
]


Kit = Annotated[
    Path, typer.Option("--kit", envvar="SPINNEY_KIT", help="The folder of your start kit.")
]


Out = Annotated[
    Path | None,
    typer.Option(help="The folder for model and report.", show_default="runs/<job's name>"),
]


_KIT = Path("kit")


@coordinator.command("init")
@reporting
def coordinator_init(path: CoordinatorFile) -> None:
    """Create the authority that signs certificates, and the coordinator's start kit."""
    from spinney.deployment.enrolment import init  # noqa: PLC0415

    fingerprint = init(path)
    typer.echo(f"The federation's fingerprint; give it to every party by telephone:\n{fingerprint}")


@coordinator.command("approve")
@reporting
def coordinator_approve(
    path: CoordinatorFile,
    request: Annotated[Path, typer.Argument(help="The request that you received.")],
    *,
    days: Annotated[int, typer.Option(help="How long the certificate is valid.")] = 365,
) -> None:
    """Sign a request, so that its sender can join."""
    from spinney.deployment.enrolment import approve  # noqa: PLC0415

    made = approve(path, request, days)
    typer.echo(f"Signed: {made.name}, as {made.role}. Send it back only if that is right.")
    typer.echo(f"Send back: {made.signed}")
    typer.echo(f"The federation's fingerprint: {made.fingerprint}")


@coordinator.command("remove")
@reporting
def coordinator_remove(
    path: CoordinatorFile,
    name: Annotated[
        str | None, typer.Argument(help="The party or person to remove, with all certificates.")
    ] = None,
    *,
    serial: Annotated[
        str | None, typer.Option(help="Instead, the serial number of one certificate.")
    ] = None,
) -> None:
    """Remove a party or a person from the federation, or refuse one certificate."""
    from spinney.deployment.enrolment import remove, revoke, signed_certificates  # noqa: PLC0415

    if name is not None and serial is not None:
        raise SettingError("Give a name or a serial number, not both.")
    if serial is not None:
        revoke(path, serial)
        typer.echo(f"The certificate {serial} is refused from now on.")
    elif name is not None:
        remove(path, name)
        typer.echo(f"{name} is removed. Approve a new request to admit it again.")
    else:
        for one in signed_certificates(path):
            typer.echo(f"{one.name:<24} {one.role:<8} until {one.last}  serial {one.serial}")
        raise SettingError("Give the name to remove, or --serial and a number from this list.")


@coordinator.command("renew")
@reporting
def coordinator_renew(
    path: CoordinatorFile,
    *,
    kit: Annotated[str, typer.Option(help="The folder for the new start kit.")] = "kit-2",
) -> None:
    """Create a new key and start kit for the coordinator, before its certificate expires."""
    from spinney.deployment.enrolment import renew  # noqa: PLC0415

    renew(path, kit)
    typer.echo(f'The new start kit is in {kit}. Stop the coordinator, set kit = "{kit}", start it.')


@coordinator.command("status")
@reporting
def coordinator_status(path: CoordinatorFile, *, as_json: Json = False) -> None:
    """Show whether the coordinator runs, who is connected, and when certificates expire."""
    from spinney.deployment import text as telling  # noqa: PLC0415
    from spinney.deployment.coordinator import status as checking  # noqa: PLC0415

    facts = checking.status(path)
    typer.echo(in_json(facts) if as_json else telling.coordinator_page(facts))


@coordinator.command("run")
@reporting
def coordinator_run(path: CoordinatorFile) -> None:
    """Run the coordinator until it is stopped."""
    from spinney.deployment.sandbox import enter_if_given  # noqa: PLC0415

    cage = enter_if_given()  # before anything is imported that has threads
    from spinney.deployment.process import run_coordinator  # noqa: PLC0415

    raise typer.Exit(run_coordinator(path, typer.echo, cage))


@party.command("request")
@reporting
def party_request(
    name: Annotated[str, typer.Argument(help="The party's name, or a person's e-mail address.")],
    federation: Annotated[str, typer.Argument(help="The federation's name.")],
    *,
    role: Annotated[
        str, typer.Option(help="party; or, for a person: lead (may start jobs), member (may view).")
    ] = "party",
    organisation: Annotated[str, typer.Option(help="The organisation's name.")] = "",
    out: Annotated[Path, typer.Option(help="The folder for the key and the request.")] = Path(
        "request"
    ),
) -> None:
    """Create a key, which stays here, and a request, which goes to the coordinator."""
    from spinney.deployment.enrolment import request  # noqa: PLC0415

    made = request(name, federation, role, organisation, out)
    typer.echo(f"Send this to the coordinator: {made}\nThe key stays in {out}; never send it.")


@party.command("join")
@reporting
def party_join(
    signed: Annotated[Path, typer.Argument(help="The signed request that you received.")],
    *,
    fingerprint: Annotated[
        str, typer.Option(help="The federation's fingerprint, from the coordinator.")
    ],
    request: Annotated[Path, typer.Option(help="The folder with the key.")] = Path("request"),
    kit: Annotated[Path, typer.Option(help="The folder for the start kit.")] = _KIT,
) -> None:
    """Create the start kit in the place that holds the key."""
    from spinney.deployment.enrolment import join  # noqa: PLC0415

    join(signed, request, kit, fingerprint)
    typer.echo(f"The start kit is in {kit}.")


@party.command("check")
@reporting
def party_check(
    path: PartyFile,
    *,
    against: Annotated[
        Path | None, typer.Option("--job", help="A job file: would this party take part?")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the table and the policy, and show what a job could ask; nothing leaves."""
    from spinney.deployment import text as telling  # noqa: PLC0415
    from spinney.deployment.party import status as checking  # noqa: PLC0415

    found = checking.check(path, against)
    typer.echo(in_json(found) if as_json else telling.party_page(found, ()))


@party.command("status")
@reporting
def party_status(path: PartyFile, *, as_json: Json = False) -> None:
    """Show whether the party runs and is connected, what left it, and its remaining budget."""
    from spinney.deployment import text as telling  # noqa: PLC0415
    from spinney.deployment.party import status as checking  # noqa: PLC0415

    facts, runs = checking.status(path)
    shown = in_json({**facts, "runs": runs}) if as_json else None
    typer.echo(shown or telling.party_page(facts, runs))


@party.command("peers")
@reporting
def party_peers(path: PartyFile, *, as_json: Json = False) -> None:
    """List the parties met in runs, their certificates' fingerprints, and which are pinned."""
    from spinney.deployment.party import peers  # noqa: PLC0415

    found = peers.show_peers(path)
    typer.echo(in_json(found) if as_json else peers.peers_page(found))


@party.command("fit")
@reporting
def party_fit(
    path: PartyFile,
    run: Annotated[str, typer.Argument(help="The run, as in `party status`, or how it begins.")],
    job: JobFile,
    *,
    metric: Annotated[
        str, typer.Option(help="What to decide for: accuracy, balanced_accuracy or f1.")
    ] = "accuracy",
    out: Annotated[
        Path | None,
        typer.Option(help="The file of the fit.", show_default="home.json in the run's records"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit a finished run's model to your own rows, for your own use; nothing leaves."""
    from spinney.deployment.party.fitting import fit_run  # noqa: PLC0415

    found = fit_run(path, run, job, metric, out)
    typer.echo(in_json(found) if as_json else str(found))


@party.command("run")
@reporting
def party_run(path: PartyFile) -> None:
    """Join the federation and answer jobs that the policy allows, until stopped."""
    from spinney.deployment.sandbox import enter_if_given  # noqa: PLC0415

    cage = enter_if_given()  # before anything is imported that has threads
    from spinney.deployment.process import run_party  # noqa: PLC0415

    raise typer.Exit(run_party(path, typer.echo, cage))


@job.command("propose")
@reporting
def job_propose(path: JobFile, *, kit: Kit = _KIT, as_json: Json = False) -> None:
    """Ask every party for yes or no, and show what the job would cost; starts nothing."""
    from spinney.deployment import client as jobs  # noqa: PLC0415
    from spinney.deployment import text as telling  # noqa: PLC0415

    made = jobs.propose(path, kit, _teller())
    typer.echo(in_json(made) if as_json else telling.proposal(made))
    if any(made.answers.values()):
        raise typer.Exit(30)


@job.command("check")
@reporting
def job_check(
    path: JobFile,
    *,
    kit: Annotated[
        Path | None,
        typer.Option("--kit", help="Your start kit: asks a federation, not simulated parties."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare the parties' tables before a job: units, codes, shifts, constants."""
    if kit is None:
        from spinney.simulation.table_fit import check_fit  # noqa: PLC0415

        found = check_fit(path)
    else:
        from spinney.deployment import client as jobs  # noqa: PLC0415

        found = jobs.check(path, kit, _teller())
    typer.echo(found.to_json() if as_json else str(found))


@job.command("start")
@reporting
def job_start(
    path: JobFile,
    *,
    kit: Kit = _KIT,
    wait: Follow = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Start a job; a party that refuses names the rule."""
    from spinney.deployment import client as jobs  # noqa: PLC0415

    _require_room(out)
    run = jobs.start(path, kit)
    _followed(run, kit, out, wait=wait, as_json=as_json)


@job.command("evaluate")
@reporting
def job_evaluate(
    run: Run,
    path: JobFile,
    *,
    kit: Kit = _KIT,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Have the parties evaluate a finished run's model: its score and feature importances."""
    from spinney.deployment import client as jobs  # noqa: PLC0415

    _require_room(out)
    _followed(jobs.evaluate(run, path, kit), kit, out, wait=True, as_json=as_json)


@job.command("predict")
@reporting
def job_predict(run: Run, path: JobFile, *, kit: Kit = _KIT, as_json: Json = False) -> None:
    """Predict with a forest over columns and all its parties; the label party gets the result."""
    from spinney.deployment import client as jobs  # noqa: PLC0415

    _followed(jobs.predict(run, path, kit), kit, None, wait=True, as_json=as_json)


@job.command("resume")
@reporting
def job_resume(
    run: Run,
    path: JobFile,
    *,
    kit: Kit = _KIT,
    wait: Follow = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Resume a paused run after its last completed round."""
    from spinney.deployment import client as jobs  # noqa: PLC0415

    known = jobs.resume(run, path, kit)
    _followed(known, kit, out, wait=wait, as_json=as_json)


@job.command("follow")
@reporting
def job_follow(run: Run, *, kit: Kit = _KIT, out: Out = None, as_json: Json = False) -> None:
    """Watch a run until it is over, and download its model."""
    _followed(run, kit, out, wait=True, as_json=as_json)


@job.command("list")
@reporting
def job_list(*, kit: Kit = _KIT, as_json: Json = False) -> None:
    """List all runs, newest first."""
    from spinney.deployment import client as jobs  # noqa: PLC0415
    from spinney.deployment import text as telling  # noqa: PLC0415

    found = jobs.list_runs(kit)
    lines = "\n".join(map(telling.line_of, found)) or "There are no runs."
    typer.echo(in_json(found) if as_json else lines)


@job.command("show")
@reporting
def job_show(run: Run, *, kit: Kit = _KIT, as_json: Json = False) -> None:
    """Show the status of a run."""
    from spinney.deployment import client as jobs  # noqa: PLC0415
    from spinney.deployment import text as telling  # noqa: PLC0415

    found = jobs.show_run(run, kit)
    typer.echo(in_json(found) if as_json else telling.page_of(found))


@job.command("abort")
@reporting
def job_abort(run: Run, *, kit: Kit = _KIT) -> None:
    """End a run permanently."""
    from spinney.deployment import client as jobs  # noqa: PLC0415
    from spinney.deployment import text as telling  # noqa: PLC0415

    typer.echo(telling.line_of(jobs.abort(run, kit)))


def _followed(run: str, kit: Path, out: Path | None, *, wait: bool, as_json: bool) -> None:
    from spinney.deployment import client as jobs  # noqa: PLC0415
    from spinney.deployment import text as telling  # noqa: PLC0415

    if wait:
        found, folder = jobs.follow(run, kit, out, _teller())
        where = "" if folder is None else f"; model and report: {folder}"
        typer.echo(in_json(found) if as_json else telling.line_of(found) + where)
        if found.state != "finished":
            raise typer.Exit(41)
    else:
        typer.echo(in_json({"run": run}) if as_json else run)


def _require_room(out: Path | None) -> None:
    """Refuse a folder that holds a run before a new run begins."""
    from spinney.report.run_folder import require_no_run  # noqa: PLC0415

    if out is not None:
        require_no_run(out)


def _teller() -> Callable[[Any], None]:
    """Return a function that prints progress on stderr: to a file, only changes of state."""
    from spinney.deployment.text import line_of  # noqa: PLC0415

    last: Any = None

    def tell(status: Any) -> None:
        nonlocal last
        line = line_of(status)
        found = line if sys.stderr.isatty() else (status.state, status.message)
        if found != last:
            typer.echo(line, err=True)
        last = found

    return tell
