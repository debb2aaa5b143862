"""What if the parties differ? A job at several skews, and dealt out by a column."""

import json

import msgspec

from spinney import load_report
from spinney.report.verdicts import Joining
from spinney.simulation.sweep import Sweep, SweepLine


def test_a_job_is_run_at_every_skew_and_nothing_is_written(place):
    place.job()
    before = place.files()
    told = place.run("simulate", "job.toml", "--skews", "0,2", "--json")
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    assert [line["deal"] for line in found["lines"]] == [0, 2]
    assert found["lines"][0]["joining"][0]["score"] == "f1"
    assert place.files() == before
    code, line = place.refused("simulate", "job.toml", "--skews", "much")
    assert code == 10
    assert "--skews must be numbers of at least 0 with commas between them" in line
    code, line = place.refused("simulate", "visits.csv", "--label", "ill", "--skews", "0")
    assert "--skews needs a job file. Write one first: spinney check" in line


def test_a_sweep_says_where_joining_stops_helping():
    helped = Joining("f1", {"a": "helped"}, 0.5, 0.6, (0.05, 0.15))
    unclear = msgspec.structs.replace(helped, gain=(-0.1, 0.15))
    lines = (SweepLine(0, (helped,)), SweepLine(1, (helped,)), SweepLine(4, (unclear,)))
    told = str(Sweep("visits", "skew", lines))
    assert "Joining clearly helps up to a skew of 1, and no longer at 4." in told
    assert "4     F1  0.500  0.600     no clear difference" in told
    assert "up to a skew of 1, the most that was tried." in str(Sweep("visits", "skew", lines[:2]))
    none = Sweep("visits", "skew", (*lines[2:], SweepLine(9, ())))
    assert "In none of these deals does joining clearly help." in str(none)
    largest = "the largest has 1 times the rows of the smallest, and no longer at 4."
    assert largest in str(Sweep("visits", "size", lines))
    columns = (SweepLine("ward", (helped,)), SweepLine("year", (unclear,)))
    told = Sweep("visits", "by", columns).in_words()
    assert told == "Joining clearly helps parties that differ by ward, but not by year."


def test_a_job_is_dealt_out_by_sizes_and_by_columns(place):
    place.job()
    told = place.run("simulate", "job.toml", "--sizes", "4,1", "--json")
    assert told.exit_code == 0, told.stderr
    assert [line["deal"] for line in json.loads(told.stdout)["lines"]] == [1, 4]
    told = place.run("simulate", "job.toml", "--by", "age")
    assert told.exit_code == 0, told.stderr
    assert "\nage  " in told.stdout
    _, line = place.refused("simulate", "job.toml", "--sizes", "0.5")
    assert "--sizes must be numbers of at least 1 with commas between them, such as 1,4,16" in line
    _, line = place.refused("simulate", "job.toml", "--sizes", "2", "--by", "age")
    assert "--sizes and --by cannot be used together" in line
    told = place.run("simulate", "job.toml", "--by", "region")
    assert told.exit_code == 10
    assert "deals out by 'region', which is not among the job's columns" in told.stderr


def test_a_table_is_dealt_out_by_a_column(place):
    place.job(place.JOB + place.TABLE + '\n[simulation]\nn_parties = 2\nby = "ward"\n')
    told = place.run("simulate", "job.toml")
    assert told.exit_code == 0, told.stderr
    assert len(load_report("runs/visits").parties) == 2
    place.job(place.JOB + place.TABLE + '\n[simulation]\nn_parties = 2\nby = "region"\n')
    code, line = place.refused("simulate", "job.toml")
    assert code == 10
    assert "deals out by 'region', which is not among the job's columns: age, ward" in line
