"""Jobs that cannot run, or not as they are: told by their reason, on a real federation."""

import json
import shutil
import signal

import pytest

from deployed.loopback import EXAMPLES, Federation  # type: ignore[import-not-found]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with Federation(tmp_path_factory.mktemp("jobs")).up() as made:
        yield made


@pytest.fixture
def federation(running):
    """The federation, its parties' files as they were."""
    for name in running.parties:
        running.write_party(name)
    return running


def small(federation, name, **settings):
    return federation.write_job(name, **({"n_estimators": 2, "max_depth": 2} | settings))


def proposed(federation, path):
    said = federation.job("propose", str(path), "--json", check=False)
    return json.loads(said.stdout)["answers"]


def refused(federation, path, code=30):
    started = federation.job("start", str(path), "--follow", check=False)
    assert started.returncode == code, started.stderr
    return started.stderr


def test_a_job_no_party_accepts_says_why_for_each(federation):
    for name in federation.parties:
        federation.write_party(name, policy='protocols = ["none"]')
    path = small(federation, "unwanted")
    answers, said = proposed(federation, path), refused(federation, path)
    for name in federation.parties:
        assert "rule 'protocols'" in answers[name]
        assert name in said


def test_a_schema_that_differs_at_one_party_is_told_by_its_name(federation):
    text = (EXAMPLES / "three_clinics.toml").read_text()
    facts = text.split("[schema.columns]")[1].split("[[party]]")[0].replace("[0, 110]", "[0, 90]")
    table = f'source = "csv"\npath = "{EXAMPLES}/north.csv"\nquery = "from source"\n'
    federation.write_party("north", f"{table}[table.columns]\n{facts}")
    said = refused(federation, small(federation, "odd-schema"))
    assert "Party 'north' declares range" in said
    assert "for column 'age'" in said


def test_a_job_changed_after_it_was_accepted_is_refused_until_it_is_proposed_again(federation):
    assert not any(proposed(federation, small(federation, "changing")).values())
    changed = small(federation, "changing", max_depth=3)
    said = refused(federation, changed)
    assert "Job 'changing' was changed after this party accepted it" in said
    assert not any(proposed(federation, changed).values())
    federation.job("start", str(changed), "--follow")


def test_a_table_changed_between_proposal_and_start_is_told(federation):
    copy = federation.root / "lakeside" / "own.csv"
    shutil.copyfile(EXAMPLES / "lakeside.csv", copy)
    federation.write_party("lakeside", 'source = "csv"\npath = "own.csv"\nrow_id = "visit"')
    path = small(federation, "moving")
    assert not any(proposed(federation, path).values())
    copy.write_text("".join(copy.read_text().splitlines(keepends=True)[:-1]))
    said = refused(federation, path)
    assert "lakeside" in said
    assert "The table changed since this party accepted job 'moving'" in said
    assert not any(proposed(federation, path).values())
    federation.job("start", str(path), "--follow")


def test_the_rate_of_jobs_is_limited_at_the_party(federation):
    federation.job("start", str(small(federation, "counted")), "--follow")
    begun = json.loads((federation.root / "north" / "records" / "begun.json").read_text())
    federation.write_party("north", policy=f"jobs_per_hour = {len(begun) + 1}")
    federation.job("start", str(small(federation, "last-allowed")), "--follow")
    said = refused(federation, small(federation, "one-too-many"))
    assert "north" in said
    assert "(rule 'jobs_per_hour'). Try again later" in said


def test_two_jobs_at_once_run_one_after_the_other(federation):
    paths = [federation.write_job(name, n_estimators=10, max_depth=4) for name in ("one", "two")]
    runs = [federation.job("start", str(path)).stdout.strip() for path in paths]
    ended = [federation.wait(run, lambda s: s["state"] in ("finished", "failed")) for run in runs]
    assert [status["state"] for status in ended] == ["finished", "finished"]
    assert ended[0]["updated"] < ended[1]["begun"]


def test_an_aborted_job_is_over_for_good(federation):
    path = federation.write_job("aborted", n_estimators=100)
    federation.signal("north", signal.SIGSTOP)  # so that the job cannot end before
    run = federation.job("start", str(path)).stdout.strip()
    assert "aborted" in federation.job("abort", run).stdout
    federation.signal("north", signal.SIGCONT)
    assert "already over" in federation.job("abort", run, check=False).stderr
