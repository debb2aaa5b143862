"""What a job of boosting over columns may say, and in which words it is refused."""

from typing import Any

import numpy as np
import pytest

from spinney import VerticalBoostingClassifier
from spinney.errors import SettingError
from spinney.protocols.boosted.settings import Settings
from spinney.protocols.spec import JobFacts
from spinney.protocols.vertical_boosting.settings import (
    VerticalBoostingJobSettings,
    VerticalSettings,
    settings_of,
)

FACTS = JobFacts("q1", "classification", ("no", "yes"), ("bank", "shop"))
CHOSEN: dict[str, Any] = {"label_party": "bank", "matching": "psi"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"interaction_cst": [["a"]]}, "interaction_cst is not supported over columns"),
    ({"secure_sum": True}, "protocol = 'vertical_boosting' sums nothing over parties"),
    ({"matching": "md5"}, "find their common rows by matching = 'psi' or 'keyed_hash'"),
    ({"label_party": "ward"}, "label_party must name the one party that holds the labels"),
    ({"labels": "hidden"}, "labels must be"),
    ({"key_bits": 1024}, "key_bits must be 2048 or 3072"),
    ({"max_depth": 40}, "max_depth must be"),
    ({"max_leaf_nodes": 9}, "max_leaf_nodes"),
]


@pytest.mark.parametrize(("said", "words"), REFUSED, ids=lambda value: str(value)[:30])
def test_a_job_file_is_refused_in_words(said, words):
    with pytest.raises(SettingError, match=words):
        settings_of(VerticalBoostingJobSettings(**(CHOSEN | said)), FACTS)


def test_a_job_file_says_what_the_estimator_takes():
    said: dict[str, Any] = {
        "max_iter": 5,
        "labels": "encrypted",
        "label_epsilon": 2,
        "monotonic_cst": {"a": 1},
    }
    settings = settings_of(VerticalBoostingJobSettings(**(CHOSEN | said)), FACTS)
    assert settings.vertical.boosting.max_iter == 5
    assert settings.vertical.labels == "encrypted"
    assert settings.vertical.job == "q1"
    assert settings.privacy is not None
    assert settings.task == "classification"


def test_rows_have_no_weights():
    boosting = Settings(task="classification", loss="log_loss", largest_weight=2.0)
    with pytest.raises(SettingError, match="Rows have no weights in boosting over columns"):
        VerticalSettings(boosting=boosting)


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
def test_randomised_labels_are_paid_from_the_label_party_s_ledger():
    random = np.random.default_rng(0)
    X = random.standard_normal((120, 2))
    y = (X[:, 0] > 0).astype(int)
    model = VerticalBoostingClassifier(
        max_iter=2, batch_trees=2, max_depth=2, min_samples_leaf=3, label_epsilon=1.0,
        column_party={"bank": [0], "shop": [1]}, label_party="bank", random_state=0,
    ).fit(X, y)  # fmt: skip
    assert set(model.ledger_) == {"bank"}
    assert model.report_.label_leakage is not None
    assert model.report_.label_leakage.label_epsilon == "1"
    assert "randomised labels" in str(model.report_)
