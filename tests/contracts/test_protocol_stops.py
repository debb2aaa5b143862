"""The forest's protocol: progress is told, and a stop leaves nothing behind."""

import threading

import pytest
from sklearn.exceptions import NotFittedError

from contracts.forest_jobs import (  # type: ignore[import-not-found]
    connected,
    job,
)
from spinney import HorizontalForestClassifier
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.party import Party

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


def test_progress_is_told(three_tables, label):
    told: list[tuple[str, int, int]] = []
    channel = connected(three_tables)
    horizontal_forest.train(
        channel, job(label, max_depth=4), progress=lambda *step: told.append(step)
    )
    phases = list(dict.fromkeys(phase for phase, _, _ in told))
    assert phases == ["binning", "growing", "judging"]
    grown = [(done, total) for phase, done, total in told if phase == "growing"]
    assert grown == [(depth, 4) for depth in range(len(grown))]


def test_verbose_prints_progress(ward_table, ward_labels, capsys):
    y = ward_labels["two classes"]
    HorizontalForestClassifier(2, verbose=1, max_depth=2).fit(ward_table, y)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "spinney: binning"
    assert "spinney: growing 1/2" in lines
    assert lines[-1] == "spinney: judging"


@pytest.mark.parametrize("step", [0, 1, 4, 8])
def test_a_stop_in_the_middle_leaves_the_estimator_unfitted(
    step, ward_table, ward_labels, monkeypatch
):
    asked = []

    def stopped(self, ask):
        asked.append(ask)
        if len(asked) > step:
            raise KeyboardInterrupt
        return answer(self, ask)

    answer = Party.answer
    monkeypatch.setattr(Party, "answer", stopped)
    forest = HorizontalForestClassifier(3, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        forest.fit(ward_table, ward_labels["two classes"])
    with pytest.raises(NotFittedError):
        forest.predict(ward_table)
    for name in ("model_", "report_", "classes_"):
        assert not hasattr(forest, name)
    monkeypatch.undo()
    forest.fit(ward_table, ward_labels["two classes"])  # and nothing stands in the way of another
    assert forest.predict(ward_table).size == len(ward_table)


def test_a_stop_in_the_middle_of_a_second_fit_leaves_no_mixture(
    ward_table, ward_labels, monkeypatch
):
    forest = HorizontalForestClassifier(3, random_state=0)
    forest.fit(ward_table, ward_labels["two classes"])

    def stopped(self, ask):
        raise KeyboardInterrupt

    monkeypatch.setattr(Party, "answer", stopped)
    with pytest.raises(KeyboardInterrupt):
        forest.fit(ward_table[["age", "income"]], ward_labels["three classes"])
    with pytest.raises(NotFittedError):
        forest.predict(ward_table)


def test_a_job_leaves_no_thread_of_its_own_behind(three_tables, label):
    horizontal_forest.train(connected(three_tables), job(label))
    before = threading.active_count()
    for _ in range(3):
        horizontal_forest.train(connected(three_tables), job(label))
    assert threading.active_count() <= before
