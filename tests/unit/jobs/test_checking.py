"""`spinney check` says what is in a table, what would go wrong, and what to do."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from spinney import load_model
from spinney.errors import SettingError, TableError
from spinney.jobs.checking.draft import job_text
from spinney.jobs.checking.notes import Choices
from spinney.jobs.checking.table import check_table, source_at
from spinney.tables.profile import OpenTable, opened_as_text, profile_of

N = 60
RANDOM = np.random.default_rng(0)
AGE = [str(age) for age in RANDOM.integers(18, 40, N)]
ILL = ["yes" if int(age) > 28 else "no" for age in AGE[:-6]] + ["no", "yes"] * 3


def table_of(tmp_path, name="t.csv", **columns):
    columns = {"age": AGE, **columns, "ill": columns.pop("ill", ILL)}
    lines = [",".join(columns)]
    quoted = (
        [f'"{cell}"' if "," in cell else cell for cell in column] for column in columns.values()
    )
    lines += [",".join(row) for row in zip(*quoted, strict=True)]
    text = "\n".join(lines) + "\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def told(tmp_path, choices=None, task=None, **columns):
    """Return the checked table's use of the first extra column, and all notes as one text."""
    found = check_table(table_of(tmp_path, **columns), "ill", task, choices)
    uses = {use.name: use for use in found.columns}
    return uses.get(next(iter(columns))), " ".join(map(str, found.notes))


MESSY = {
    "one word among numbers": (
        {"x": ["unknown", *AGE[1:]]},
        "number",
        "holds numbers, but for 1 cell (1.7 %): 'unknown' (1); they are read as missing",
    ),
    "thousands": (
        {"x": [f"{1000 + 7 * (i % 50):,}" for i in range(N)]},
        "number",
        "a comma before the thousands; they are read so. If that is wrong: --decimal ','",
    ),
    "decimal commas": (
        {"x": [f"0,{100 + i % 50}" for i in range(N)]},
        "number",
        "a comma before the decimals; they are read so. If that is wrong: --decimal '.'",
    ),
    "dates": (
        {"x": [f"2024-03-{1 + i % 28:02d}" for i in range(N)]},
        "number",
        "dates written as %Y-%m-%d; they are read as days since 1970-01-01.",
    ),
    "dates with points": (
        {"x": [f"{1 + i % 28:02d}.03.2024" for i in range(N)]},
        "number",
        "dates written as %d.%m.%Y",
    ),
    "dates that read both ways": (
        {"x": [f"{1 + i % 12:02d}/03/2024" for i in range(N)]},
        "number",
        "or with the month first: every cell reads both ways",
    ),
    "an id of text": (
        {"x": [f"P{i}" for i in range(N)]},
        None,
        "'x' is unique in every row; it was left out as an identifier",
    ),
    "a record number": (
        {"x": [str(90210 + 37 * i * i) for i in range(N)]},
        None,
        "'x' is unique in every row; it was left out as an identifier",
    ),
    "free text": (
        {"x": [f"note {i // 1.5}" for i in range(N)]},
        None,
        "is different in almost every row, like free text; it was left out",
    ),
    "a long list of values": (
        {"x": [f"v{i % 300}" for i in range(900)], "age": AGE * 15, "ill": ILL * 15},
        None,
        "has 300 different values, more than 255; it was left out",
    ),
    "a constant": ({"x": ["1"] * N}, None, "has one value in all rows; it was left out"),
    "an empty column": ({"x": [""] * N}, None, "holds no value; it was left out"),
    "several spellings": (
        {"x": ["Eye", "eye ", "ear"] * (N // 3)},
        "category",
        "spells values in several ways; read 'eye ' as 'Eye'",
    ),
    "numbers and codes": (
        {"x": [f"V{i % 9}" if i % 3 == 0 else str(i % 9) for i in range(N)]},
        "category",
        "mixes numbers and text",
    ),
    "a column that tells the label": (
        {"x": ["1" if one == "yes" else "0" for one in ILL]},
        "number",
        "'x' alone tells the label 'ill' in nearly every row",
    ),
    "classes in several spellings": (
        {"ill": [one if i % 2 else one.upper() + " " for i, one in enumerate(ILL)]},
        None,
        "The label 'ill' spells values in several ways",
    ),
    "labels that are missing": (
        {"ill": ["", *ILL[1:]]},
        None,
        "The label 'ill' is missing in 1 row (1.7 %); what has no label was left out",
    ),
    "three positives": (
        {"ill": ["yes"] * 3 + ["no"] * (N - 3)},
        None,
        "has the class 'yes' in 3 rows only",
    ),
    "classes that differ by a letter": (
        {"ill": ["positive", "positve", "negative"] * (N // 3)},
        None,
        "nearly the same name: 'positive' and 'positve'",
    ),
}


@pytest.mark.parametrize("case", MESSY)
def test_what_is_messy_is_told_with_a_remedy(tmp_path, case):
    columns, kind, words = MESSY[case]
    use, notes = told(tmp_path, **columns)
    assert words in notes
    if use is not None:
        assert use.kind == kind


def test_a_plain_table_has_nothing_to_tell(tmp_path):
    found = check_table(table_of(tmp_path), "ill")
    assert [note for note in found.notes if note.weight != "look"] == []
    assert found.used[0].ends == (float(min(map(int, AGE))), float(max(map(int, AGE))))


def test_a_user_s_choices_are_kept(tmp_path):
    dates = [f"2024-03-{1 + i % 28:02d}" for i in range(N)]
    assert told(tmp_path, Choices(dates="drop"), x=dates)[0].kind is None
    assert told(tmp_path, Choices(drop=("x",)), x=dates)[0].kind is None
    use, notes = told(tmp_path, Choices(na=("unknown",)), x=["unknown", *AGE[1:]])
    assert use.kind == "number"
    assert "unknown" not in notes
    with pytest.raises(SettingError, match="--dates must be days"):
        Choices(dates="years")


def test_an_amount_is_not_taken_for_classes(tmp_path):
    amounts = [f"{i * 1.5:.2f}" for i in range(N)]
    found = check_table(table_of(tmp_path, ill=amounts), "ill")
    assert found.label is not None
    assert found.label.task == "regression"
    with pytest.raises(TableError, match="too many different values to be classes"):
        check_table(table_of(tmp_path, ill=amounts), "ill", "classification")


def test_compressed_tables_and_blank_headers_are_read(tmp_path):
    path = tmp_path / "t.csv.gz"
    rows = "\n".join(f"{i},{age},{ill}" for i, (age, ill) in enumerate(zip(AGE, ILL, strict=True)))
    path.write_bytes(gzip.compress(f",age,ill\n{rows}\n".encode()))
    found = check_table(path, "ill")
    assert [use.name for use in found.used] == ["age"]
    assert found.row_id == "unnamed_1"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("t.xlsx", "is a spreadsheet, which Spinney does not read. Save the sheet as CSV"),
        ("t.json", "does not end as a table does"),
        ("t.db", "is a database. Say which rows, with a query: --query"),
    ],
)
def test_files_that_are_no_tables_are_refused_in_words(tmp_path, name, words):
    (tmp_path / name).write_text("?")
    with pytest.raises(SettingError, match=words):
        check_table(tmp_path / name, "ill")


def test_a_check_writes_a_job_that_runs(place):
    rows = [
        (n, f"2024-03-{1 + n % 28:02d}", f"note {n}", *row) for n, row in enumerate(place.visits())
    ]
    rows[3] = (*rows[3][:4], "SECRET", rows[3][5])
    place.csv("own.csv", rows, header=("", "seen", "note", "age", "ward", "ill"))
    shown = place.run("check", "own.csv", "--label", "ill", "--write", "own.toml")
    assert shown.exit_code == 0, shown.stderr
    assert "Job     own.toml" in shown.stdout
    job = (place.folder / "own.toml").read_text()
    assert "SECRET" not in job
    assert 'values = ["ear", "eye", "other"]' in job
    run = place.run("simulate", "own.toml")
    assert run.exit_code == 0, run.stderr
    assert "Public facts were read" not in run.stderr
    assert load_model("runs/own").model_.schema.names == ("seen", "age", "ward")
    code, line = place.refused("check", "own.csv", "--label", "ill", "--write", "own.toml")
    assert code == 10
    assert "exists, and Spinney overwrites nothing" in line


def test_a_check_without_a_label_and_for_machines(place):
    shown = place.run("check", "visits.csv")
    assert shown.exit_code == 0, shown.stderr
    assert "Next: spinney check visits.csv --label NAME" in shown.stdout
    found = json.loads(place.run("check", "visits.csv", "--label", "ill", "--json").stdout)
    assert found["task"] == "classification"
    assert [one["kind"] for one in found["columns"]] == ["number", "category"]
    _, line = place.refused("check", "visits.csv", "--label", "ILL")
    assert "Did you mean 'ill'?" in line


def test_texts_that_mean_missing_are_missing_in_the_job_too(place):
    rows = [
        (*row[:1], "?" if n % 9 == 0 else row[1], row[2]) for n, row in enumerate(place.visits())
    ]
    rows[5] = ("unknown", *rows[5][1:])
    place.csv("own.csv", rows)
    given = ("--label", "ill", "--na", "unknown", "--na", "?")
    told = place.run("check", "own.csv", *given, "--write", "own.toml")
    assert told.exit_code == 0, told.stderr
    for asked in (("own.toml",), ("own.csv", *given)):
        run = place.run("simulate", *asked)
        assert run.exit_code == 0, run.stderr
    for name in ("own", "own-2"):
        assert load_model(f"runs/{name}").model_.schema.column("ward").categories == ("ear", "eye")


def test_a_label_with_one_class_is_refused(tmp_path):
    with pytest.raises(TableError, match="has one class only"):
        check_table(table_of(tmp_path, ill=["no"] * N), "ill")


def test_the_page_of_messy_files_says_what_is_said():
    """Every quoted phrase of the page's last column is one that a test here looks for."""
    root = Path(__file__).parents[3]
    page = (root / "docs/messy.md").read_text(encoding="utf-8")
    rows = [line.split("|")[3] for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 35
    looked_for = "".join(
        path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")
    )
    for phrase in (quoted for row in rows for quoted in re.findall(r'"([^"]+)"', row)):
        assert phrase in looked_for, phrase


def test_a_number_that_may_stand_for_missing_is_pointed_out(tmp_path):
    pulse = [str(60 + n % 30) for n in range(N)]
    _, notes = told(tmp_path, pulse=["999" if n % 20 == 0 else one for n, one in enumerate(pulse)])
    assert "Column 'pulse' holds 999 in 3 rows, far from all other numbers (60 to 89)." in notes
    assert "If it stands for a missing value: --na 999." in notes
    _, notes = told(tmp_path, pulse=["-1" if n == 7 else one for n, one in enumerate(pulse)])
    assert "Column 'pulse' holds -1 in 1 row, far from" in notes
    sure = Choices(na=("-1",))
    _, notes = told(tmp_path, sure, pulse=["-1" if n == 7 else one for n, one in enumerate(pulse)])
    assert "far from all other numbers" not in notes


@pytest.mark.parametrize("numbers", [(97, 98, 99), (-1, 0, 1), (900, 950, 999), (1, 40, 812)])
def test_numbers_among_others_are_not_called_missing(tmp_path, numbers):
    cells = [str(numbers[n % 3]) for n in range(N)]
    assert "far from all other numbers" not in told(tmp_path, x=cells)[1]


def range_of_x(path):
    """Return the range of the column x in the job file that a check would write."""
    text = job_text(check_table(path, "ill", None, Choices()))
    (found,) = re.findall(r'^"x" = .*range = (\[.*?\])', text, re.MULTILINE)
    return json.loads(found)


@pytest.mark.parametrize(
    ("cells", "ends"),
    [
        ([18, *[*range(20, 79)] * 2, 97], [15, 100]),  # ages: no single person's age is an end
        ([13, *[20] * 30, *[25] * 30], [0, 25]),  # many rows hold the upper end
        ([0] * 30 + [1] * 30, [0, 1]),  # many rows hold both ends
        ([*range(2014, 2024)] * 6, [2014, 2023]),
        ([1013 + n for n in range(61)] * 2, [1010, 1075]),
        ([n / 100 for n in range(37, 98)], [0.35, 1]),
        ([-n for n in range(61)] * 2, [-60, 0]),
    ],
)
def test_a_written_range_ends_at_no_number_that_few_rows_hold(tmp_path, cells, ends):
    path = table_of(
        tmp_path, x=[*map(str, cells)], age=(AGE * 3)[: len(cells)], ill=(ILL * 3)[: len(cells)]
    )
    assert range_of_x(path) == ends


def test_a_written_range_holds_every_number_of_its_column(tmp_path):
    random = np.random.default_rng(3)
    for n in range(40):
        drawn = random.normal(random.normal(0, 100), 10.0 ** random.integers(1, 5), 61)
        cells = [f"{one:.{n % 5}f}" for one in drawn] * 2
        path = table_of(tmp_path, x=cells, age=[*AGE, "30"] * 2, ill=[*ILL, "no"] * 2)
        low, high = range_of_x(path)
        numbers = [*map(float, cells)]
        assert low <= min(numbers)
        assert high >= max(numbers)
        assert high - low <= 1.6 * (max(numbers) - min(numbers))


def test_dates_stay_dates_in_the_check_the_job_file_the_page_and_the_officer_s_document(place):
    rows = [(f"2024-{1 + n % 12:02d}-{1 + n % 28:02d}", *row)
            for n, row in enumerate(place.visits(300))]  # fmt: skip
    place.csv("own.csv", rows, header=("seen", "age", "ward", "ill"))
    shown = place.run("check", "own.csv", "--label", "ill", "--write", "own.toml")
    (line,) = (line for line in shown.stdout.splitlines() if line.startswith("seen "))
    assert line.split() == ["seen", "date", "-", "2024-01-01", "to", "2024-12-28"]
    assert 'dates = ["seen"]' in (place.folder / "own.toml").read_text()
    for asked in (("own.toml",), ("own.csv", "--label", "ill")):
        run = place.run("simulate", *asked, "--out", f"run-{len(asked)}")
        assert run.exit_code == 0, run.stderr
        page = (place.folder / f"run-{len(asked)}" / "report.html").read_text()
        assert re.search(r'class="soft">2024-\d\d-\d\d</text>', page)
        assert '"name": "seen", "kind": "number"' in page
        assert '"holder": null, "is_date": true' in page
    assert place.run("report", "--for-officer", "run-1").exit_code == 0
    document = (place.folder / "run-1" / "officer.html").read_text()
    assert "date from 2023-" in document
    text = (place.folder / "own.toml").read_text().replace('["seen"]', '["see"]')
    (place.folder / "other.toml").write_text(text)
    _, line = place.refused("simulate", "other.toml")
    assert "names 'see' in dates, which is not among the columns: age, seen, ward." in line


def test_a_wide_table_is_asked_about_many_columns_at_once(tmp_path):
    """A query over thousands of columns takes longer to plan than to run."""
    n = 120
    random = np.random.default_rng(1)
    y = random.integers(0, 2, n)
    values = random.normal(size=(900, n)).round(3)
    columns = {f"x{i}": list(map(str, row)) for i, row in enumerate(values)}
    columns |= {"shown": [f"{value + random.random() / 2:.3f}" for value in y]}
    path = table_of(tmp_path, age=AGE * 2, **columns, ill=["yes" if one else "no" for one in y])
    asked = []

    class Counting(OpenTable):
        def ask(self, query):
            asked.append(query)
            return super().ask(query)

    with opened_as_text(source_at(path)) as table:
        found = profile_of(Counting(table.connection, table.types))
        assert len(asked) < 200
        assert len(list(table.in_parts(range(900)))) < 20
        long = OpenTable(table.connection, table.types)
        long.__dict__["n_rows"] = 3_000_000
        assert [len(part) for part in long.in_parts(range(3))] == [1, 1, 1]
    told = found.column("x7")
    assert (told.n_known, told.n_plain, told.type) == (n, n, "text")
    assert told.low == values[7].min()
    assert told.high == values[7].max()
    assert sum(count for _, count in told.values) == n
    leaks = [one for one in check_table(path, "ill").notes if "alone tells" in one.seen]
    assert [one.column for one in leaks] == ["shown"]
