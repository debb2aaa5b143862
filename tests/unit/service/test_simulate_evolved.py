"""`spinney simulate` with evolved trees: the example, its settings, what is written."""

from pathlib import Path

import pytest

from spinney import load_model, load_report
from spinney.errors import SettingError
from spinney.service.progress import Stages
from spinney.service.showing import opening
from spinney.service.simulation import simulate

EVOLVED = Path(__file__).parents[3] / "docs" / "examples" / "evolved_trees.toml"


def test_the_example_of_evolved_trees_gives_every_party_a_tree(tmp_path):
    outcome = simulate(EVOLVED, tmp_path / "run", Stages())
    assert outcome.is_personal
    assert outcome.identical_to_pooled is None
    assert "evolved a tree for each of them" in opening(outcome)
    model = load_model(tmp_path / "run")
    assert list(model.tree_of_) == [party.party for party in outcome.parties]
    report = load_report(tmp_path / "run")
    assert len(report.history) == 30
    for found in report.quality:
        assert {"f1", "local_f1", "pooled_f1", "nodes", "edit_distance"} <= set(found.scores)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("n_estimators = 10", "n_estimators is not a setting of evolved trees"),
        ("participation = 0", "participation must be a share above 0 and at most 1; got 0"),
        ("metric = 'auc'", "metric must be 'f1'; got 'auc'"),
    ],
)
def test_settings_of_evolved_trees_are_checked_before_a_table_is_opened(
    setting, sentence, tmp_path
):
    text = EVOLVED.read_text(encoding="utf-8").replace("n_generations = 30", setting)
    job = tmp_path / "job.toml"
    job.write_text(text.replace("visits.csv", "nowhere.csv"), encoding="utf-8")
    with pytest.raises(SettingError, match=sentence):
        simulate(job, tmp_path / "run", Stages())


def test_a_forest_does_not_take_the_settings_of_evolved_trees(tmp_path):
    text = EVOLVED.read_text(encoding="utf-8").replace('"genetic_tree"', '"horizontal_forest"')
    job = tmp_path / "job.toml"
    job.write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match="n_generations is not a setting of a forest"):
        simulate(job, tmp_path / "run", Stages())
