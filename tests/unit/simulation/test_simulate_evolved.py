"""`spinney simulate` with evolved trees: the example, its settings, what is written."""

from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import pytest

from spinney import load_model, load_report
from spinney.cli.text import opening
from spinney.errors import SettingError
from spinney.simulation.comparison import train_over
from spinney.simulation.progress import Stages
from spinney.simulation.run import simulate

EVOLVED = Path(__file__).parents[3] / "docs" / "examples" / "evolved_trees.toml"


def test_the_example_of_evolved_trees_gives_every_party_a_tree(tmp_path):
    outcome = simulate(EVOLVED, tmp_path / "run", Stages())
    assert outcome.is_personal
    assert outcome.identical_to_pooled is None
    assert "evolved one tree each" in opening(outcome)
    model = load_model(tmp_path / "run")
    assert list(model.tree_of_) == [party.party for party in outcome.parties]
    report = load_report(tmp_path / "run")
    assert len(report.history) == 30
    for found in report.quality:
        assert {"f1", "local_f1", "pooled_f1", "nodes", "edit_distance"} <= set(found.scores)
        assert {"f1", "local_f1", "pooled_f1", "gain_f1"} <= set(found.intervals)
        assert {"joint_tree_f1", "joint_forest_f1"} <= set(found.scores) & set(found.intervals)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    for words in ("own tree, evolved together", "joint tree", "joint forest", "F1 by party"):
        assert words in page
    assert outcome.beside in page
    assert {"joint_tree", "joint_forest"} <= set(outcome.mean)


def test_the_joint_tree_is_as_deep_as_the_evolved_ones(tmp_path):
    text = EVOLVED.read_text(encoding="utf-8").replace("max_depth = 5", "max_depth = 1")
    text = text.replace("n_generations = 30", "n_generations = 1\nmin_depth = 1")
    text = text.replace("visits.csv", (EVOLVED.parent / "visits.csv").as_posix())
    job = tmp_path / "job.toml"
    job.write_text(text, encoding="utf-8")
    trees = []

    def kept(*asked):
        trained = train_over(*asked)
        trees.append(trained.model.forest)
        return trained

    with patch("spinney.simulation.evolved.train_over", kept):
        simulate(job, tmp_path / "run", Stages())
    tree, forest = trees
    assert (tree.n_trees, tree.depths.max()) == (1, 1)
    assert (forest.n_trees, forest.depths.max() > 1) == (100, True)


@pytest.mark.parametrize("secure_sum", ["true", "false"])
def test_a_job_file_may_ask_for_a_private_search(secure_sum, tmp_path):
    text = EVOLVED.read_text(encoding="utf-8")
    text = text.replace("n_generations = 30", "n_generations = 4\npopulation_size = 4")
    text = text.replace("max_depth = 5", "max_depth = 3\nepsilon = 5\ndelta = 1e-5")
    text = text.replace("secure_sum = true", f"secure_sum = {secure_sum}")
    table = (EVOLVED.parent / "visits.csv").as_posix()
    job = tmp_path / "job.toml"
    job.write_text(text.replace("visits.csv", table), encoding="utf-8")
    outcome = simulate(job, tmp_path / "run", Stages())
    assert outcome.is_personal
    assert any("epsilon" in claim for claim in outcome.privacy)
    report = load_report(tmp_path / "run")
    assert report.is_private
    assert [budget.party for budget in report.budgets] == list(report.parties)
    claimed = [Fraction(c.epsilon) for c in report.privacy if c.verdict == "EPSILON"]
    assert claimed
    assert all(0 < epsilon <= 5 for epsilon in claimed)
    exact = {"Depth", "Structure", "Votes", "Scores", "Facts"}
    assert not exact & {d.question for d in report.disclosures}
    for found in report.quality:  # what a party keeps is its own business; the rows are held out
        assert {"f1", "local_f1", "pooled_f1"} <= set(found.scores)
        assert "kept_home" not in found.scores


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("n_estimators = 10", "'genetic_tree' has no setting 'n_estimators'"),
        ("participation = 0", "participation must be a share above 0 and at most 1; got 0"),
        ("metric = 'auc'", "metric must be 'f1'; got 'auc'"),
        ("epsilon = 0", "epsilon must be a positive finite number; got 0"),
        ("epsilon = 1\nmin_depth = 9\nmax_depth = 9", "max_depth=9 cannot be used with epsilon"),
        ("epsilon = 1\nsize_epsilon = 1", "leave participation and size_epsilon at their defaults"),
        ("epsilon = 1\ndelta = 2", "delta must be"),
        ("delta = 0.001", "delta is used only with epsilon. Drop it, or give epsilon too"),
        ("secure_sum = false\nhonest = 3", "honest is the number .* It needs secure_sum=True"),
    ],
)
def test_settings_of_evolved_trees_are_checked_before_a_table_is_opened(
    setting, sentence, tmp_path
):
    keys = [line.split(" =")[0] for line in setting.splitlines()]
    lines = EVOLVED.read_text(encoding="utf-8").replace("visits.csv", "nowhere.csv").splitlines()
    kept = [line for line in lines if line.split(" =")[0] not in keys]
    text = "\n".join(kept).replace("[settings]", f"[settings]\n{setting}\n#")
    job = tmp_path / "job.toml"
    job.write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match=sentence):
        simulate(job, tmp_path / "run", Stages())


def test_a_forest_does_not_take_the_settings_of_evolved_trees(tmp_path):
    text = EVOLVED.read_text(encoding="utf-8").replace('"genetic_tree"', '"horizontal_forest"')
    job = tmp_path / "job.toml"
    job.write_text(text, encoding="utf-8")
    with pytest.raises(
        SettingError, match="has no setting 'n_generations': it belongs to 'genetic_tree'"
    ):
        simulate(job, tmp_path / "run", Stages())
