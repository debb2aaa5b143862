"""`spinney simulate` compares alone, joint, and the joint model fitted at home."""

import re

import numpy as np
import pytest

from spinney import load_report
from spinney.report.page.quality import MODELS
from spinney.simulation.progress import Stages
from spinney.simulation.run import simulate

JOB = """
[job]
name = "skewed"
protocol = "{protocol}"
task = "classification"
[settings]
{settings}
min_samples_leaf = 5
[schema]
label = "ill"
classes = ["no", "yes"]
[schema.columns]
mark = {{ kind = "number", range = [-9, 9] }}
other = {{ kind = "number", range = [-9, 9] }}
"""


def skewed_clinics(folder, n=240):
    """Write three parties' tables; of one 3, of one 50, of one 97 percent are ill."""
    random = np.random.default_rng(0)
    tables = ""
    for name, share in (("calm", 0.03), ("even", 0.5), ("sick", 0.97)):
        ill = np.arange(n) < share * n
        mark = random.normal(0, 1, n) + 1.2 * ill
        other = random.normal(0, 1, n)
        words = np.where(ill, "yes", "no")
        lines = [f"{a:.3f},{b:.3f},{c}" for a, b, c in zip(mark, other, words, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["mark,other,ill", *lines]) + "\n")
        tables += f'[[party]]\nname = "{name}"\nsource = "csv"\npath = "{name}.csv"\n'
    return tables


@pytest.mark.parametrize(
    ("protocol", "settings"),
    [
        ("horizontal_forest", "n_estimators = 20\nmax_depth = 4"),
        ("extra_trees", "n_estimators = 20\nmax_depth = 4"),
        ("horizontal_boosting", "max_iter = 15"),
    ],
)
def test_the_report_compares_what_is_fitted_at_home_and_names_who_was_below_its_majority(
    protocol, settings, tmp_path
):
    tables = skewed_clinics(tmp_path)
    job = tmp_path / "job.toml"
    text = JOB.format(protocol=protocol, settings=settings)
    job.write_text(text + tables + "[simulation]\nheld_out = 0.4\n", encoding="utf-8")
    simulate(job, tmp_path / "run", Stages())
    report = load_report(tmp_path / "run")
    found = {one.party: one.scores for one in report.quality}
    assert all({"local_f1", "f1", "home_f1", "home_accuracy"} <= set(q) for q in found.values())
    below = [name for name, q in found.items() if q["accuracy"] < q["majority"]]
    assert below
    assert "even" not in below
    for name in below:
        assert found[name]["home_accuracy"] > found[name]["accuracy"]
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for words in (*(MODELS[model] for model in ("local", "", "home")), "for_party"):
        assert words in page
    named = set(re.findall(r"At '(\w+)' the joint model is right in", str(report)))
    assert named == set(below)
