"""`spinney job check`: of the parties' tables, what does not fit is found, and little else."""

import json

import numpy as np
import pandas as pd
import pytest

from spinney import deal_rows
from spinney.protocols.table_fit import IdsElsewhere
from spinney.report.table_fit import TableFit
from spinney.simulation.table_fit import fit_of
from spinney.tables.describe import describe
from spinney.tables.frames import columns_of, encode_target
from spinney.tables.table import MemoryTable

N = 1500


def hospital(random, n=N):
    """Return rows whose columns are tied to each other and to the label."""
    age, pressure = random.normal(55, 15, n).round(), random.normal(130, 18, n)
    ward = random.choice(["eye", "ear", "lung", "heart"], n, p=[0.4, 0.3, 0.2, 0.1])
    creatinine, smokes = np.exp(random.normal(0, 0.4, n)), random.random(n) < 0.3
    risk = 0.04 * (age - 55) + 0.02 * (pressure - 130) + 0.8 * smokes + (ward == "heart")
    ill = np.where(risk + np.log(creatinine) + random.normal(0, 1, n) > 0.5, "yes", "no")
    table = {"age": age, "pressure": pressure, "ward": ward, "creatinine": creatinine}
    return pd.DataFrame({**table, "smokes": smokes}), ill


def fit(frames, labels, ids=(None,) * 5):
    schema, _ = describe(pd.concat(frames), np.concatenate(labels), label_kind="class")
    tables = {
        f"p{place}": MemoryTable(
            schema, columns_of(X, schema), encode_target(y, schema.label), ids=ids[place]
        )
        for place, (X, y) in enumerate(zip(frames, labels, strict=True))
    }
    return fit_of("visits", tables)


def dealt(random):
    X, y = hospital(random)
    site = deal_rows(y, 5, random_state=int(random.integers(10**6)))
    return [X[site == one].copy() for one in range(5)], [y[site == one] for one in range(5)]


NEXT = {"eye": "ear", "ear": "lung", "lung": "heart", "heart": "eye"}
FAULTS = {
    "unit": (lambda X: X.assign(creatinine=X.creatinine * 88.4), "creatinine", "another unit"),
    "small factor": (lambda X: X.assign(pressure=X.pressure / 2.5), "pressure", "another unit"),
    "shift": (lambda X: X.assign(age=X.age + 15), "age", "values are larger here"),
    "constant": (lambda X: X.assign(age=X.age.iloc[0]), "age", "one value here"),
    "codes": (lambda X: X.assign(ward=X.ward.str.upper()), "ward", "other values are common"),
    "recoded": (
        lambda X: X.assign(ward=X.ward.map(NEXT)),
        "ward",
        "another meaning of the codes",
    ),
    "flipped": (lambda X: X.assign(smokes=~X.smokes), "smokes", "other values are common here"),
    "swapped": (
        lambda X: X.assign(age=X.pressure, pressure=X.age),
        "age",
        "above those of the others",
    ),
    "missing": (lambda X: X.assign(age=X.age.where(X.age > 50)), "age", "% of the rows here"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_one_party_is_found_and_named(fault):
    spoil, column, words = FAULTS[fault]
    frames, labels = dealt(np.random.default_rng(7))
    frames[2] = spoil(frames[2])
    found = {(line.party, line.column): line.what for line in fit(frames, labels).lines}
    assert words in found["p2", column]
    assert {party for party, _ in found} == {"p2"}


def test_tables_that_fit_are_said_to_fit():
    found = fit(*dealt(np.random.default_rng(3)))
    assert found.lines == ()
    assert "The tables fit: no column of any party stands out" in str(found)
    assert found.is_masked


def test_parties_with_other_shares_of_classes_still_fit():
    X, y = hospital(np.random.default_rng(1), 4000)
    site = deal_rows(y, 4, skew=0.3, random_state=0)
    found = fit([X[site == one] for one in range(4)], [y[site == one] for one in range(4)])
    assert found.lines == ()


def test_a_job_s_tables_are_checked_from_the_command_line(place):
    rows = place.visits(1500)  # of few, rounding may make another stand out
    place.csv("north.csv", rows[::3])
    place.csv("south.csv", rows[1::3])
    place.csv("west.csv", [(f"{float(age) / 4:.3f}", *rest) for age, *rest in rows[2::3]])
    parties = "".join(
        f'\n[[party]]\nname = "{name}"\nsource = "csv"\npath = "{name}.csv"\n'
        for name in ("north", "south", "west")
    )
    place.job(place.JOB + parties)
    told = place.run("job", "check", "job.toml")
    assert told.exit_code == 0, told.stderr
    assert "- west, age: " in told.stdout
    found = json.loads(place.run("job", "check", "job.toml", "--json").stdout)
    assert found["rows"] == {"north": 500, "south": 500, "west": 500}


def is_said_of(found, count):
    """Return whether about so many ids are told, in the words for it; within six deviations."""
    shared = found.shared
    near = abs(shared.about - count) <= 3 * (shared.most - shared.about)  # noise is drawn
    words = f"No ids were found at more than one party; up to {shared.most:,} would not be noticed."
    if shared.is_found:
        words = f"- about {shared.about:,} ids stand at more than one party ("
    return near and words in str(found)


def test_ids_at_two_parties_are_counted_about_and_told():
    frames, labels = dealt(np.random.default_rng(3))
    sizes = [len(one) for one in labels]
    ids = [np.arange(n, dtype=np.uint64) + 10_000 * (at // 2) for at, n in enumerate(sizes)]
    found = fit(frames, labels, ids)  # 0 and 1 number alike, 2 and 3 too; 4 shares none
    shared = min(sizes[:2]) + min(sizes[2:4])
    assert is_said_of(found, shared)


def test_ids_of_one_party_each_are_not_found_and_it_is_said_what_would_not_be():
    frames, labels = dealt(np.random.default_rng(3))
    ids = [np.arange(len(y), dtype=np.uint64) + 10_000 * at for at, y in enumerate(labels)]
    found = fit(frames, labels, ids)
    assert is_said_of(found, 0)


def test_without_a_row_id_it_is_said_that_nothing_can_be_told():
    frames, labels = dealt(np.random.default_rng(3))
    ids = [np.arange(len(y), dtype=np.uint64) + 10_000 * at for at, y in enumerate(labels)]
    some = fit(frames, labels, [None, *ids[1:]])
    told = "Whether ids of p0 stand elsewhere cannot be told: its table names no row_id."
    assert told in str(some)
    assert " at more than one party" in str(some)
    none = fit(frames, labels)
    assert none.shared is None
    assert told in str(none)
    assert "at more than one party" not in str(none)


def shared_of(*told):
    ids = {f"p{place}": IdsElsewhere(about, error, "") for place, (about, error) in enumerate(told)}
    return TableFit.of("visits", (), {}, ids, is_masked=True).shared


def test_ids_are_found_beyond_two_deviations_of_all_or_three_of_one():
    found = shared_of((100, 10), (100, 10), (0, 10))
    assert found is not None
    assert (found.about, found.is_found) == (100, True)
    assert found.least == found.about - 17
    weak = shared_of((10, 10), (15, 10))
    assert weak is not None
    assert (weak.about, weak.least, weak.is_found) == (12, 0, False)
    one = shared_of((35, 10), (35, 10), *[(-5, 40)] * 8)  # two of many parties share ids
    assert one is not None
    assert one.is_found


def test_a_party_that_may_share_no_id_is_not_blamed_and_every_interval_is_told():
    ids = {
        f"p{place}": IdsElsewhere(about, error, "")
        for place, (about, error) in enumerate([(200, 20), (190, 20), (15, 20), (-30, 20)])
    }
    told = str(TableFit.of("visits", (), {}, ids, is_masked=True))
    assert (
        "shared with others: p0 about 200 (160 to 240), p1 about 190 (150 to 230), p2 perhaps none "
        "(0 to 55), p3 perhaps none (0 to 10); every interval holds in 95 of 100 cases)"
    ) in told
    assert "draw rounding and noise anew" not in told  # real parties: the same answer again


def test_a_simulated_check_says_that_it_may_tell_something_else_next_time():
    told = str(fit(*dealt(np.random.default_rng(3))))
    assert "Simulated parties draw rounding and noise anew in every check" in told
    assert told.endswith("Real parties give the same tables the same answer.")
