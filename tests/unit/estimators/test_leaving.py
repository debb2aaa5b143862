"""Models that leave an estimator: several parties' are hardened, one party's own is not."""

import numpy as np
import pytest

from spinney import HorizontalForestClassifier, PrivateForestClassifier, load_model
from spinney.protocols.release_terms import Hardening
from spinney.report.door import release

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


def grown(table, labels, *, n_parties):
    party = None if n_parties == 1 else np.arange(len(labels)) % n_parties
    return HorizontalForestClassifier(4, random_state=0).fit(table, labels, party=party)


@pytest.fixture
def labels(ward_labels):
    return ward_labels["two classes"]


def test_a_model_of_several_parties_is_saved_and_exported_as_it_may_leave(
    ward_table, labels, tmp_path
):
    forest = grown(ward_table, labels, n_parties=3)
    forest.save(tmp_path / "left")
    left = load_model(tmp_path / "left")
    assert left.model_.to_bytes() == release(forest.model_, Hardening())[0].to_bytes()
    twin = forest.to_sklearn()
    assert np.array_equal(twin.predict_proba(ward_table), left.predict_proba(ward_table))
    assert not np.array_equal(twin.predict_proba(ward_table), forest.predict_proba(ward_table))
    left.save(tmp_path / "again")  # once is enough
    assert (tmp_path / "again").read_bytes() == (tmp_path / "left").read_bytes()


def test_exact_bytes_are_written_on_request(ward_table, labels, tmp_path):
    forest = grown(ward_table, labels, n_parties=3)
    forest.save(tmp_path / "all", exact=True)
    assert (tmp_path / "all").read_bytes() == forest.model_.to_bytes()
    twin = forest.to_sklearn(exact=True)
    assert np.array_equal(twin.predict_proba(ward_table), forest.predict_proba(ward_table))


def test_one_party_s_own_model_is_written_as_it_is(ward_table, labels, tmp_path):
    forest = grown(ward_table, labels, n_parties=1)
    forest.save(tmp_path / "own")
    assert (tmp_path / "own").read_bytes() == forest.model_.to_bytes()


def test_a_page_holds_the_model_that_may_leave(ward_table, labels, tmp_path):
    forest = grown(ward_table, labels, n_parties=3)
    forest.report_.to_html(tmp_path / "page.html", forest.model_)
    left = release(forest.model_, Hardening())[0]
    forest.report_.to_html(tmp_path / "left.html", left)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page == (tmp_path / "left.html").read_text(encoding="utf-8")
    assert f'"n_nodes":[{",".join(map(str, np.diff(left.forest.tree_start)))}]' in page.replace(
        " ", ""
    )


def test_counts_with_noise_close_no_leaf(ward_table, labels):
    forest = PrivateForestClassifier(epsilon=1.0, n_estimators=3, max_depth=6, random_state=0)
    model = forest.fit(ward_table, labels, party=np.arange(len(labels)) % 3).model_
    left, done = release(model, Hardening())
    assert left.forest.n_nodes == model.forest.n_nodes
    assert np.array_equal(left.forest.moments, model.forest.moments)
    assert [told.split()[0] for told in done] == ["thresholds", "predictions", "4"]  # ranges
