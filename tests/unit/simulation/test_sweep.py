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
    hurt = msgspec.structs.replace(helped, gain=(-0.2, -0.1))
    lines = (SweepLine(0, (helped,)), SweepLine(1, (helped,)), SweepLine(4, (unclear,)))
    told = str(Sweep("visits", "skew", lines))
    assert told.endswith("By F1, joining clearly helps up to a skew of 1, and no longer at 4.")
    assert "4     F1  0.500  0.600     no clear difference" in told
    every = Sweep("visits", "skew", lines[:2]).in_words()
    assert every == "By F1, joining clearly helps in all of these deals."
    none = Sweep("visits", "skew", (*lines[2:], SweepLine(9, ())))
    assert none.in_words() == "By F1, joining clearly helps in none of these deals."
    assert "No party could compare" in Sweep("visits", "skew", (SweepLine(9, ()),)).in_words()
    later = Sweep("visits", "skew", lines[::-1]).in_words()
    assert later.endswith("helps at a skew of 1 or 0, but not at a skew of 4.")
    sizes = Sweep("visits", "size", (lines[0], SweepLine(4, (hurt,)))).in_words()
    assert "helps up to a largest party with 0 times the smallest's rows, and no longer" in sizes
    assert sizes.endswith("; it clearly hurts where the largest party has 4 times the smallest's "
                          "rows.")  # fmt: skip
    columns = (SweepLine("ward", (helped,)), SweepLine("year", (unclear,)))
    told = Sweep("visits", "by", columns).in_words()
    assert told == (
        "By F1, joining clearly helps parties that differ by ward, but not parties that differ by "
        "year."
    )


def test_a_sweep_says_of_every_score_what_its_table_says():
    f1 = Joining("f1", {"a": "x"}, 0.5, 0.6, (-0.05, 0.15))
    auc = Joining("auc", {"a": "x"}, 0.7, 0.8, (0.05, 0.15))
    unclear = msgspec.structs.replace(auc, gain=(-0.1, 0.15))
    lines = (SweepLine(0, (f1, auc)), SweepLine(2, (f1, unclear)), SweepLine(9, (auc,)))
    assert Sweep("visits", "skew", lines).in_words() == (
        "By F1, joining clearly helps in none of these deals.\n"
        "By AUC, joining clearly helps at a skew of 0 or 9, but not at a skew of 2."
    )


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
    assert "be dealt out by 'region', which is not among the job's columns" in told.stderr


def test_a_table_is_dealt_out_by_a_column(place):
    place.job(place.JOB + place.TABLE + '\n[simulation]\nn_parties = 2\nby = "ward"\n')
    told = place.run("simulate", "job.toml")
    assert told.exit_code == 0, told.stderr
    assert len(load_report("runs/visits").parties) == 2
    place.job(place.JOB + place.TABLE + '\n[simulation]\nn_parties = 2\nby = "region"\n')
    code, line = place.refused("simulate", "job.toml")
    assert code == 10
    assert "be dealt out by 'region', which is not among the job's columns: age, ward" in line


def test_a_sweep_names_the_column_that_cannot_deal_and_takes_no_folder(place):
    place.job()
    told = place.run("simulate", "job.toml", "--by", "ward")
    assert told.exit_code == 10
    assert (
        "The rows cannot be dealt out by 'ward': the column has 2 different values, fewer than the "
        "5 parties."
    ) in told.stderr
    _, line = place.refused("simulate", "job.toml", "--skews", "0", "--out", "elsewhere")
    assert "--skews writes nothing, so there is nothing for --out." in line
