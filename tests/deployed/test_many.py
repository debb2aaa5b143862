"""Deployed jobs at their edges: ten parties, fifty jobs, databases, clocks, a wire that is cut."""

import json
import os
import shutil
import subprocess
import time
from contextlib import closing
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from deployed import wide  # type: ignore[import-not-found]
from deployed.loopback import EXAMPLES, OVER, Federation  # type: ignore[import-not-found]

pytestmark = pytest.mark.slow
DAY = 86_400.0


def finished(federation, path):
    run = federation.job("start", str(path)).stdout.strip()
    status = federation.wait(run, lambda status: status["state"] in OVER)
    assert status["state"] == "finished", status
    return (federation.root / "coordinator" / "runs" / run / "model.spinney").read_bytes()


def test_ten_parties_on_one_machine(tmp_path):
    names = tuple(f"clinic{number}" for number in range(10))
    federation = Federation(tmp_path / "ten", names, limits="patience_seconds = 300")
    wide.write_tables(federation, 500)
    federation.enrol()
    federation.start()
    try:
        path = wide.write_job(federation, "ten", n_estimators=5, max_depth=4, secure_sum=True)
        assert finished(federation, path) == wide.simulated(federation, path)
    finally:
        federation.stop()


def test_fifty_jobs_in_a_row_leak_nothing(tmp_path):
    federation = Federation(tmp_path / "fifty")
    for name in federation.parties:
        federation.write_party(name, policy="jobs_per_hour = 1000")
    federation.enrol()
    federation.start()
    sides = ("coordinator", *federation.parties)
    try:
        seen = []
        for number in range(int(os.environ.get("SPINNEY_JOBS", "50"))):
            finished(federation, federation.write_job(f"job{number}", n_estimators=2, max_depth=2))
            seen.append({name: usage(federation, name) for name in sides})
        early, late = seen[len(seen) // 2], seen[-1]
        for name in sides:
            handles, memory = late[name]
            assert handles <= early[name][0] + 10
            assert memory < early[name][1] * 1.2
    finally:
        federation.stop()


def usage(federation, name):
    """Return the open files and the resident pages of a side's process."""
    process = Path(f"/proc/{federation.processes[name].pid}")
    handles = len(list((process / "fd").iterdir()))
    return handles, int((process / "statm").read_text().split()[1])


def test_tables_in_postgresql_and_duckdb(tmp_path, postgres_server):
    psycopg = pytest.importorskip("psycopg")
    federation = Federation(tmp_path / "databases")
    frame = pd.read_csv(EXAMPLES / "lakeside.csv")
    columns = ["visit", "age", "stay_days", "earlier_visits", "ward", "smokes", "readmitted"]
    with closing(psycopg.connect(postgres_server)) as database, database.cursor() as cursor:
        cursor.execute(
            "create table visits (id serial, visit text, age float8, stay_days float8, "
            "earlier_visits float8, ward text, smokes boolean, readmitted text)"
        )
        listed = ", ".join(columns)
        for row in frame[columns].itertuples(index=False):
            values = [None if pd.isna(value) else plain(value) for value in row]
            cursor.execute(f"insert into visits ({listed}) values (%s,%s,%s,%s,%s,%s,%s)", values)
        database.commit()
    federation.environment["DB_URL"] = postgres_server
    query = f'query = "select {", ".join(columns)} from visits order by id"\nrow_id = "visit"\n'
    federation.write_party("lakeside", f'source = "sql"\nurl_env = "DB_URL"\n{query}')
    with duckdb.connect(str(federation.root / "north" / "visits.duckdb")) as database:
        read = f"read_csv('{EXAMPLES / 'north.csv'}', types = {{'readmitted': 'varchar'}})"
        database.execute(f"create table visits as from {read}")
    query = 'query = "from visits where age >= 18"\nrow_id = "visit"\n'
    federation.write_party("north", f'source = "sql"\npath = "visits.duckdb"\n{query}')
    federation.enrol()
    federation.start()
    try:
        path = federation.write_job("databases", n_estimators=5, max_depth=4)
        from_databases = finished(federation, path)
        for name in ("lakeside", "north"):
            federation.write_party(name)
            federation.kill(name)
            federation.start(name)  # another table: another cage
        federation.wait_until_connected()
        again = federation.write_job("files", n_estimators=5, max_depth=4)
        assert finished(federation, again) == from_databases
    finally:
        federation.stop()


def plain(value):
    return value.item() if hasattr(value, "item") else value


def test_clocks_that_differ_by_days(tmp_path):
    federation = Federation(tmp_path / "clocks")
    wide.write_tables(federation, 500)
    federation.enrol()
    federation.ahead = {"north": 9 * DAY, "lakeside": -3 * DAY, "coordinator": 2 * DAY}
    federation.start()
    try:
        settings = {"n_estimators": 5, "max_depth": 4, "secure_sum": True}
        path = wide.write_job(federation, "clocks", **settings)
        assert finished(federation, path) == wide.simulated(federation, path)
        begun = json.loads(next(federation.root.glob("*/runs/*/status.json")).read_text())["begun"]
        assert begun > time.time() + DAY  # the coordinator's clock was wrong indeed
    finally:
        federation.stop()


@pytest.fixture
def islands():
    """Two network namespaces with a wire between them; gives their names."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    mark = str(os.getpid() % 10_000)
    near, far, here, there = f"spn{mark}a", f"spn{mark}b", f"va{mark}", f"vb{mark}"
    hosts = "127.0.0.1 localhost\n10.77.0.1 coordinator.test\n"
    for name in (near, far):
        Path(f"/etc/netns/{name}").mkdir(parents=True)
        Path(f"/etc/netns/{name}/hosts").write_text(hosts)
        run("ip", "netns", "add", name)
        run("ip", "netns", "exec", name, "ip", "link", "set", "lo", "up")
    run(
        "ip",
        "link",
        "add",
        here,
        "netns",
        near,
        "type",
        "veth",
        "peer",
        "name",
        there,
        "netns",
        far,
    )
    for name, device, address in ((near, here, "10.77.0.1/24"), (far, there, "10.77.0.2/24")):
        run("ip", "netns", "exec", name, "ip", "addr", "add", address, "dev", device)
        run("ip", "netns", "exec", name, "ip", "link", "set", device, "up")
    yield near, far, there
    for name in (near, far):
        run("ip", "netns", "del", name)
        shutil.rmtree(f"/etc/netns/{name}")


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize("seconds", [5, 45])
def test_a_wire_that_is_cut_and_healed(tmp_path, islands, seconds):
    near, far, device = islands
    federation = Federation(tmp_path / "cut", host="coordinator.test")
    federation.namespace = dict.fromkeys(("coordinator", "lead", *federation.parties), near)
    federation.namespace["north"] = far
    wide.write_tables(federation)
    federation.enrol()
    federation.start()
    try:
        path = wide.write_job(federation, "cut", n_estimators=20, max_depth=9)
        job = federation.job("start", str(path)).stdout.strip()
        federation.wait_for_round(job, 7)
        run("ip", "netns", "exec", far, "ip", "link", "set", device, "down")
        time.sleep(seconds)
        run("ip", "netns", "exec", far, "ip", "link", "set", device, "up")
        status = federation.wait(job, lambda status: status["state"] in OVER)
        assert status["state"] == "finished", status
        model = federation.root / "coordinator" / "runs" / job / "model.spinney"
        assert model.read_bytes() == wide.simulated(federation, path)
    finally:
        federation.stop()
