"""What is refused, in which words, with which code; and that nothing is left behind."""

import re
import sqlite3

import pytest

START = '[job]\nname = "x"\n[settings]\nn_estimators = 3\n[schema]\nlabel = "ill"\n'
FACTS = (
    'classes = ["no", "yes"]\n[schema.columns]\nage = { kind = "number" }\n'
    'ward = { kind = "category", values = ["eye", "ear"] }\n'
)
WARD = '[table.columns]\nward = { kind = "boolean" }\n'


def csv_table(name):
    return f'[table]\nsource = "csv"\npath = "{name}"\n'


def sql_table(query):
    return f'[table]\nsource = "sql"\npath = "visits.db"\nquery = "{query}"\n'


def parties(*names, **more):
    return "".join(
        f'[[party]]\nname = "{name}"\nsource = "csv"\npath = "{name}.csv"\n{more.get(name, "")}\n'
        for name in names
    )


GOOD = START + FACTS + csv_table("visits.csv")
REFUSED = {
    # tables
    "no such table": (
        START + FACTS + csv_table("nowhere.csv"),
        20,
        "The file of the table does not exist. Check its path. Path: .*nowhere.csv",
    ),
    "ragged rows": (
        START + FACTS + csv_table("ragged.csv"),
        20,
        r"a row with more or fewer cells than its header\. Give .* Line 3\. Expected 3 cells",
    ),
    "no rows": (START + FACTS + csv_table("empty.csv"), 20, r"The table has no rows\. Check"),
    "not parquet": (
        START + FACTS + '[table]\nsource = "parquet"\npath = "visits.csv"\n',
        20,
        r"The Parquet file cannot be read\. Check",
    ),
    "an SQL error": (
        START + FACTS + sql_table("SELECT absent FROM visits"),
        20,
        r"The query failed\. Correct it.* The database says: no such column: absent",
    ),
    "not a SELECT": (
        START + FACTS + sql_table("DROP TABLE visits"),
        20,
        r"The query is not a single SELECT\.",
    ),
    "no such database": (
        START + FACTS + sql_table("SELECT 1").replace("visits.db", "nowhere.db"),
        20,
        r"The database file of the table does not exist\.",
    ),
    "one class only, read": (
        START + csv_table("healthy.csv"),
        20,
        r"The label 'ill' has one class only\. A classifier needs at least 2",
    ),
    "one class only, declared": (
        START + FACTS + csv_table("healthy.csv"),
        20,
        r"The label 'ill' has one class only over all parties\. .* check the label column",
    ),
    "a label is missing": (
        START + FACTS + csv_table("unlabelled.csv"),
        20,
        r"The label 'ill' is missing \(NaN\) in some rows\.",
    ),
    "text among numbers": (
        START + FACTS + csv_table("text.csv"),
        21,
        r"The column 'age' of the CSV file holds text .* Correct it, or declare",
    ),
    "an unknown category": (
        GOOD.replace('"eye", "ear"', '"eye"'),
        21,
        r"The column 'ward' holds a category that the schema does not name\. It names: eye\.",
    ),
    "a missing column": (
        GOOD.replace("age =", "height ="),
        21,
        r"The table has no column 'height'\. Rename it .* It has: age, ward, ill\.",
    ),
    # parties
    "columns differ between parties": (
        START + parties("visits", "stays"),
        21,
        (
            r"The parties' schemas differ\. Party 'stays' has no column 'age', which "
            r"party 'visits' has\. It has: years, ward\. Rename it, or drop it from the job\."
        ),
    ),
    "facts differ between parties": (
        START
        + 'classes = ["no", "yes"]\n'
        + parties(
            "visits",
            "healthy",
            visits='columns = { age = { kind = "number", range = [0, 99] } }',
            healthy='columns = { age = { kind = "number", range = [0, 110] } }',
        ),
        21,
        (
            r"Party 'healthy' declares range \[0.0, 110.0\] for column 'age'; party 'visits' "
            r"declares \[0.0, 99.0\]\. Declare the same range at both\."
        ),
    ),
    "a party's own table": (
        START + FACTS + parties("visits", "stays"),
        21,
        r"Party 'stays': The table has no column 'age'\.",
    ),
    "two parties of one name": (
        START + FACTS + parties("visits", "visits"),
        10,
        r"Every \[\[party\]\] in 'job.toml' needs a unique name; got 'visits'",
    ),
    # settings
    "max_bins out of range": (
        GOOD.replace("n_estimators", "max_bins = 300\nn_estimators"),
        10,
        r"max_bins must be a whole number between 2 and 255; got 300\.",
    ),
    "a wrong type": (
        GOOD.replace("= 3", '= "many"'),
        10,
        r"\[settings\] in 'job.toml': n_estimators must be a whole number; got 'many'\.",
    ),
    "a list for a number": (
        GOOD.replace("= 3", "= 3\nmax_features = [1]"),
        10,
        r"max_features must be a number or text; got a list\.",
    ),
    "a wrong type in a list": (
        GOOD + '[simulation]\nn_parties = 2\nsizes = [1, "big"]\n',
        10,
        r"\[simulation\] in 'job.toml': sizes\[1\] must be a number; got text\.",
    ),
    "a weight that is no number": (
        GOOD.replace("= 3", '= 3\nclass_weight = { yes = "big" }'),
        10,
        r"every entry of class_weight must be a number; got text\.",
    ),
    "a weight of no class": (
        GOOD.replace("= 3", "= 3\nclass_weight = { maybe = 2 }"),
        10,
        r"class_weight names 'maybe', which is not a class\. The classes are: no, yes\.",
    ),
    "a weight in words": (
        GOOD.replace("= 3", '= 3\nclass_weight = "equal"'),
        10,
        r"class_weight must be 'balanced' or a table of weights by class; got 'equal'\.",
    ),
    "weights for a number": (
        GOOD.replace("= 3", '= 3\nclass_weight = "balanced"').replace(
            '"x"\n', '"x"\ntask = "regression"\n'
        ),
        10,
        r"class_weight is for classification only\. Drop it\.",
    ),
    "masks over adaptive histograms": (
        GOOD.replace("= 3", '= 3\nsecure_sum = true\nbinning = "adaptive"'),
        10,
        r"binning = 'adaptive' cannot be masked: .* Use 'quantiles' or 'ranges'",
    ),
    "masks over one party": (
        GOOD.replace("= 3", "= 3\nsecure_sum = true") + "[simulation]\nn_parties = 1\n",
        10,
        r"A secure sum needs between 2 and 63 parties; got 1\.",
    ),
    "a limit of leaves": (
        GOOD.replace("= 3", "= 3\nmax_leaf_nodes = 8"),
        10,
        (
            r"max_leaf_nodes is not supported: all trees grow one level at a time\. "
            r"Use max_depth, min_samples_leaf or min_impurity_decrease\."
        ),
    ),
    "a message too small": (
        GOOD.replace("= 3", "= 3\nmessage_limit = 1000"),
        10,
        r"message_limit must be a whole number between 65536 and 2147483648; got 1000\.",
    ),
    "an unknown key": (
        GOOD.replace("n_estimators", "n_estimator"),
        10,
        (
            r"Unknown key 'n_estimator' in \[settings\] of 'job.toml'\. Did you mean "
            r"'n_estimators'\? Known keys: coordinator, n_estimators, criterion, .*n_jobs\."
        ),
    ),
    "an unknown key of a column": (
        GOOD.replace("values", "categories"),
        10,
        (
            r"Unknown key 'categories' for the column 'ward' in \[schema\] of 'job.toml'\. "
            r"Known keys: kind, range, values\."
        ),
    ),
    "a column without a kind": (
        GOOD.replace('kind = "number"', "range = [0, 1]"),
        10,
        r"The column 'age' in \[schema\] of 'job.toml': the key 'kind' is missing\.",
    ),
    "a column that is a word": (
        GOOD.replace('{ kind = "number" }', '"number"'),
        10,
        r"The column 'age' in \[schema\] of 'job.toml' must be given as \{ kind = \"number\" \}",
    ),
    "a wrong kind": (
        GOOD.replace('"number"', '"date"'),
        10,
        r"The kind of column 'age' must be number or category or boolean; got 'date'\.",
    ),
    "a range of one": (
        GOOD.replace('kind = "number"', 'kind = "number", range = [1]'),
        10,
        r"The range of column 'age' must be two numbers, lowest first",
    ),
    "a column declared but not listed": (
        START + 'columns = ["age"]\n' + csv_table("visits.csv") + WARD,
        10,
        r"The job declares 'ward' but does not list it among its columns\. List it, or drop it\.",
    ),
    # the job file
    "an unknown section": (
        GOOD + "[simulations]\n",
        10,
        r"Unknown section \[simulations\] in 'job.toml'\. Known sections: \[job\], ",
    ),
    "not TOML": ("[job\n", 10, r"'.*job.toml' is not TOML: .*line 1.* Correct that line"),
    "no job": ("[settings]\n", 10, r"'job.toml' has no \[job\] section\."),
    "no name": ("[job]\n", 10, r"\[job\] in 'job.toml': the key 'name' is missing\. Add it\."),
    "a name that is a path": (
        GOOD.replace('"x"', '"../x"'),
        10,
        r"The job's name must consist of letters, digits, .* got '\.\./x'\.",
    ),
    "an unknown protocol": (
        GOOD.replace('"x"\n', '"x"\nprotocol = "boosting"\n'),
        10,
        r"protocol must be 'horizontal_forest' or .*; got 'boosting'\.",
    ),
    "an unknown task": (
        GOOD.replace('"x"\n', '"x"\ntask = "ranking"\n'),
        10,
        r"task must be 'classification' or 'regression'; got 'ranking'\.",
    ),
    "an unknown source": (
        GOOD.replace('"csv"', '"xls"'),
        10,
        r"source must be 'csv' or 'parquet' or 'sql'; got 'xls'\.",
    ),
    "no label": (
        GOOD.replace('label = "ill"\n', ""),
        10,
        r"The job names no label\. Say in \[schema\] or \[table\]",
    ),
    "no table": (START + FACTS, 10, r"'job.toml' names no table\. Give one \[table\]"),
    "a table and parties": (
        GOOD + parties("visits"),
        10,
        r"'job.toml' has both \[table\] and \[\[party\]\]\.",
    ),
    "two tables": (
        GOOD.replace("[table]", "[[table]]"),
        10,
        r"'job.toml' has more than one \[table\]\.",
    ),
    "a party in single brackets": (
        (START + FACTS + parties("visits")).replace("[[party]]", "[party]"),
        10,
        r"\[party\] in 'job.toml' needs double brackets: \[\[party\]\]\.",
    ),
    "a section that is a number": (
        "settings = 3\n" + GOOD.replace("[settings]\nn_estimators = 3\n", ""),
        10,
        r"\[settings\] in 'job.toml' must be a section of keys; got 3\.",
    ),
    "dealing where each party has a table": (
        START + FACTS + parties("visits") + "[simulation]\nn_parties = 3\n",
        10,
        r"'job.toml' sets n_parties in \[simulation\], which is for dealing out one \[table\]",
    ),
    "too many parties": (
        GOOD + "[simulation]\nn_parties = 999\n",
        10,
        r"n_parties must be a whole number between 1 and the number of rows, 120; got 999\.",
    ),
    "everything held out": (
        GOOD + "[simulation]\nheld_out = 1.0\n",
        10,
        r"held_out must be at least 0 and less than 1; got 1\.0\.",
    ),
    "an environment variable that is not set": (
        GOOD.replace('"csv"\npath = "visits.csv"', '"sql"\nurl_env = "NO_URL"\nquery = "SELECT 1"'),
        10,
        r"url_env names the environment variable 'NO_URL', which is not set\.",
    ),
    "a database without an address": (
        GOOD.replace('"csv"\npath = "visits.csv"', '"sql"\nquery = "SELECT 1"'),
        10,
        r"An sql table needs url_env, .* or path",
    ),
    "a file without a path": (
        GOOD.replace('path = "visits.csv"', 'query = "SELECT 1"'),
        10,
        r"A csv table needs path and no url_env\.",
    ),
    "a database without a query": (
        GOOD.replace('"csv"\npath = "visits.csv"', '"sql"\npath = "visits.db"'),
        10,
        r"An sql source needs a query\.",
    ),
}


@pytest.fixture
def tables(place):
    rows = place.visits()
    place.csv("stays.csv", rows, header=("years", "ward", "ill"))
    place.csv("healthy.csv", [(age, ward, "no") for age, ward, _ in rows])
    place.csv("unlabelled.csv", [*rows, ("30", "eye", "")])
    place.csv("ragged.csv", [rows[0], ("30", "eye"), rows[1]])
    place.csv("text.csv", [*rows, ("old", "eye", "no")])
    place.csv("empty.csv", [])
    with sqlite3.connect(place.folder / "visits.db") as database:
        database.execute("CREATE TABLE visits (age REAL, ward TEXT, ill TEXT)")
    database.close()
    return place


@pytest.mark.parametrize("what", REFUSED)
def test_a_job_is_refused_in_one_line_and_nothing_is_written(tables, what):
    text, code, wording = REFUSED[what]
    tables.write(text)
    found, line = tables.refused("simulate", "job.toml")
    assert line.startswith("spinney: ")
    assert re.search(wording, line), line
    assert found == code


def test_what_is_refused_here_would_else_have_run(tables):
    tables.write(GOOD)
    assert tables.run("simulate", "job.toml").exit_code == 0
