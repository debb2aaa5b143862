"""Numbers that are written oddly, and record numbers that are not quite unique, in a checked table.

What a check says of a column is what a simulation and a written job then do with it.
"""

import random
import re

import pytest

from spinney import load_model
from spinney.jobs.checking.draft import job_text
from spinney.jobs.checking.notes import Choices, share
from spinney.jobs.checking.table import check_table

N = 400
ILL = [("yes", "no")[n % 3 == 0] for n in range(N)]
OTHER = [f"0,{n * 7 % 10}" for n in range(N)]  # makes a query necessary
RECORDS = [str(number) for number in random.Random(5).sample(range(10_000, 90_000), N)]


def table_of(folder, x):
    rows = [f'{a},"{b}",{c}' if "," not in a else f'"{a}","{b}",{c}'
            for a, b, c in zip(x, OTHER, ILL, strict=True)]  # fmt: skip
    path = folder / "own.csv"
    path.write_text("\n".join(["x,other,ill", *rows, ""]), encoding="utf-8")
    return path


def told(folder, x, **choices):
    found = check_table(table_of(folder, x), "ill", None, Choices(**choices))
    return found.columns[0], " ".join(str(note) for note in found.notes if note.column == "x")


ODD = {
    "months with zeros": (
        [f"{n % 12 + 1:02d}" for n in range(N)],
        "holds numbers that begin with zeros, as codes do",
    ),
    "a plus before numbers": ([f"+{n % 9}" for n in range(N)], ""),
    "infinite numbers": (
        ["inf", "1e400", "1_000", *[str(n % 17) for n in range(N - 3)]],
        "but for 3 cells (0.8 %): '1_000' (1), '1e400' (1), 'inf' (1); they are read as missing",
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_a_column_that_a_check_calls_a_number_is_one_in_every_run(place, case):
    x, words = ODD[case]
    use, notes = told(place.folder, x)
    assert use.kind == "number"
    assert words in notes
    shown = place.run("check", "own.csv", "--label", "ill", "--write", "own.toml")
    assert shown.exit_code == 0, shown.stderr
    for asked in (("own.toml",), ("own.csv", "--label", "ill")):
        run = place.run("simulate", *asked, "--out", f"run-{len(asked)}")
        assert run.exit_code == 0, run.stderr
        assert load_model(f"run-{len(asked)}").model_.schema.column("x").kind == "number"


@pytest.mark.parametrize(
    "x",
    [
        pytest.param([f"{n * 7 % 100}.{n % 10}%" for n in range(N)], id="percent"),
        pytest.param([f"${n * 37 % 9000 + 1000:,}.50" for n in range(N)], id="dollars"),
        pytest.param([f"EUR {n * 37}" for n in range(N)], id="euros"),
        pytest.param([f"{n * 37} mmHg" for n in range(N)], id="a unit"),
        pytest.param(["<0.5" if n % 5 == 0 else str(n % 90) for n in range(N)], id="censored"),
        pytest.param([f"{1 + n % 9}'{n:03d}.25" for n in range(N)], id="Swiss thousands"),
        pytest.param([f"−{n % 300}" for n in range(N)], id="a printer's minus"),  # noqa: RUF001
    ],
)
def test_numbers_with_signs_or_units_around_them_are_told(tmp_path, x):
    _, notes = told(tmp_path, x)
    assert "'x' holds numbers with signs or units around them (" in notes
    assert "Write plain numbers, or convert them by a job file's query." in notes
    assert "free text" not in notes
    assert "Group its values" not in notes


@pytest.mark.parametrize(
    "x",
    [
        pytest.param([f"A{n % 60:02d}.{n % 7}" for n in range(N)], id="codes"),
        pytest.param([f"{n:03d}-22-{n % 90}" for n in range(N)], id="numbers of people"),
        pytest.param([f"10.0.{n % 99}.{n % 7}" for n in range(N)], id="addresses"),
        pytest.param([f"{n % 24:02d}:{n % 60:02d}" for n in range(N)], id="times"),
    ],
)
def test_codes_are_not_taken_for_numbers_with_units(tmp_path, x):
    assert "signs or units" not in told(tmp_path, x)[1]


def test_record_numbers_are_left_out_where_a_few_rows_have_none(tmp_path):
    gaps = ["" if n % 50 == 0 else one for n, one in enumerate(RECORDS)]
    use, notes = told(tmp_path, gaps)
    assert use.kind is None
    assert "differs in every row that has it; it was left out as an identifier" in notes
    assert not use.is_id  # not every row has it, so it cannot be the job's row_id


def test_a_text_that_means_missing_makes_no_feature_of_a_record_number(tmp_path):
    path = table_of(tmp_path, list(map(str, range(700, 700 + N))))
    job = job_text(check_table(path, "ill", None, Choices(na=("999",))))
    assert re.findall(r'^"(.*)" = ', job, re.MULTILINE) == ["other"]
    assert "row_id" not in job


def test_record_numbers_of_which_one_occurs_twice_are_pointed_out(tmp_path):
    use, notes = told(tmp_path, [RECORDS[9], *RECORDS[1:]])
    assert use.kind == "number"
    assert "holds whole numbers that differ in nearly every row, as record numbers do" in notes
    assert "If it is an identifier, leave it out: --drop 'x'." in notes
    assert "nearly every row" not in told(tmp_path, [str(n % 90) for n in range(N)])[1]


def test_shares_are_never_rounded_to_nothing_or_to_all():
    told = [share(n, 10_000) for n in (0, 1, 40, 5_000, 9_960, 9_999, 10_000)]
    assert told == ["0 %", "below 0.1 %", "0.4 %", "50 %", "99.6 %", "above 99.9 %", "100 %"]


def test_a_check_says_how_many_classes_it_does_not_show(place):
    path = place.folder / "many.csv"
    path.write_text("x,kind\n" + "".join(f"{n % 7},k{n % 11}\n" for n in range(N)))
    shown = place.run("check", "many.csv", "--label", "kind")
    assert re.search(r"Predicts 'kind': (k\d+ 9\.\d %, ){7}k\d+ 9\.\d % and 3 classes more\.",
                     shown.stdout)  # fmt: skip
    assert re.search(r"A simulation takes about \d+ s and 400 MB of memory\.", shown.stdout)
