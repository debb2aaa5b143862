"""What if the parties differ? A job at several skews, and dealt out by a column."""

import json

import msgspec

from spinney import load_report
from spinney.report.verdicts import Joining
from spinney.simulation.sweep import SkewLine, Sweep


def test_a_job_is_run_at_every_skew_and_nothing_is_written(place):
    place.job()
    before = place.files()
    told = place.run("simulate", "job.toml", "--skews", "0,2", "--json")
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    assert [line["skew"] for line in found["lines"]] == [0, 2]
    assert found["lines"][0]["joining"][0]["score"] == "f1"
    assert place.files() == before
    code, line = place.refused("simulate", "job.toml", "--skews", "much")
    assert code == 10
    assert "--skews must be numbers with commas between them" in line
    code, line = place.refused("simulate", "visits.csv", "--label", "ill", "--skews", "0")
    assert "--skews needs a job file. Write one first: spinney check" in line


def test_a_sweep_says_where_joining_stops_helping():
    helped = Joining("f1", {"a": "helped"}, 0.5, 0.6, (0.05, 0.15))
    unclear = msgspec.structs.replace(helped, gain=(-0.1, 0.15))
    lines = (SkewLine(0, (helped,)), SkewLine(1, (helped,)), SkewLine(4, (unclear,)))
    told = str(Sweep("visits", lines))
    assert "Joining clearly helps up to a skew of 1, and no longer at 4." in told
    assert "4     F1  0.500  0.600     no clear difference" in told
    assert "up to the largest skew that was tried, 1." in str(Sweep("visits", lines[:2]))
    assert "At none of these skews" in str(Sweep("visits", (*lines[2:], SkewLine(9, ()))))


def test_a_table_is_dealt_out_by_a_column(place):
    place.job(place.JOB + place.TABLE + '\n[simulation]\nn_parties = 2\nby = "ward"\n')
    told = place.run("simulate", "job.toml")
    assert told.exit_code == 0, told.stderr
    assert len(load_report("runs/visits").parties) == 2
    place.job(place.JOB + place.TABLE + '\n[simulation]\nn_parties = 2\nby = "region"\n')
    code, line = place.refused("simulate", "job.toml")
    assert code == 10
    assert "deals out by 'region', which is not among the job's columns: age, ward" in line
