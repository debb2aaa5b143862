"""Parts of a vertical forest: joined by consent only, and what a prediction needs of them."""

from dataclasses import replace

import numpy as np
import pytest

from spinney.errors import PartyLostError, PolicyError, ProtocolError, StorageError
from spinney.protocols.columns.model import PartialModel
from spinney.protocols.columns.prediction import (
    PredictingParty,
    ValuesAsk,
    join_parts,
    name_leaves,
    predict_rows,
)
from spinney.tables.columns import VectorColumns
from spinney.transport.channel import Ask
from spinney.transport.in_process import InProcess
from unit.protocols.vertical_forest.vertical_parties import (  # type: ignore[import-not-found]
    N,
    fitted,
    frame,
)

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


def test_a_forest_is_joined_only_if_all_agree(tmp_path):
    X, _ = frame()
    forest = fitted(consent=["bank"])
    words = r"'shop' did not consent to joining the parts"
    exports = (forest.to_sklearn, forest.to_onnx, forest.to_treelite)
    for use in (lambda: forest.model_, lambda: forest.save(tmp_path / "model"), *exports):
        with pytest.raises(PolicyError, match=words):
            use()
    found = forest.predict(X)  # the parties predict together all the same
    assert found.size == N
    assert np.array_equal(found, fitted().predict(X))
    assert np.array_equal(found, forest.classes_[forest.predict_proba(X).argmax(axis=1)])
    assert not list(tmp_path.iterdir())


def test_a_part_holds_no_cut_of_others_and_leaves_only_at_the_label_party():
    forest = fitted()
    bank, shop = forest.partial_models_["bank"], forest.partial_models_["shop"]
    assert shop.part.value.shape[1] == shop.part.moments.shape[1] == 0
    assert shop.label is None
    assert bank.part.value.shape[1] == 2
    for part in (bank.part, shop.part):
        others = part.feature == -2
        assert others.any()
        assert not part.threshold[others].any()
        assert not part.gain[others].any()


def test_a_part_is_saved_and_read_by_its_party(tmp_path):
    part = fitted().partial_models_["shop"]
    part.save(tmp_path / "part")
    assert PartialModel.load(tmp_path / "part").to_bytes() == part.to_bytes()
    (tmp_path / "part").write_bytes(part.to_bytes()[:-40])
    with pytest.raises(StorageError):
        PartialModel.load(tmp_path / "part")
    cut = replace(part, part=replace(part.part, feature=part.part.feature + 9))
    cut.save(tmp_path / "part")
    with pytest.raises(StorageError, match="does not hold a valid part of a forest"):
        PartialModel.load(tmp_path / "part")


def predicting(forest, **changes):
    X, _ = frame()
    sides = {}
    for name, part in forest.partial_models_.items():
        own = X[[column.name for column in part.columns]].to_numpy(np.float32).T
        sides[name] = PredictingParty(part, VectorColumns(tuple(own)), N, **changes)
    return sides


def test_a_prediction_with_a_party_absent_is_refused():
    forest = fitted()
    sides = predicting(forest)
    del sides["shop"]
    with pytest.raises(
        PartyLostError, match="Party 'shop' is absent, and nobody else has its cuts"
    ):
        predict_rows(forest.roles_, InProcess(sides))


@pytest.mark.parametrize("intersect_at", ["label_party", "coordinator"])
def test_prediction_is_one_round_whatever_the_rows_and_trees(intersect_at):
    forest = fitted(intersect_at=intersect_at)
    channel = InProcess(predicting(forest), through_codec=True)
    predict_rows(forest.roles_, channel)
    assert [r.question for r in channel.rounds] == ["Leaves", "Values"]
    asked = channel.rounds[0].answered
    assert asked == (("shop",) if intersect_at == "label_party" else ("bank", "shop"))


def test_rows_that_a_party_does_not_have_go_where_missing_values_go():
    X, _ = frame()
    forest = fitted()
    sides = predicting(forest)
    part = forest.partial_models_["shop"]
    held = np.flatnonzero(np.arange(N) % 3)
    own = VectorColumns((X["visits"].to_numpy(np.float32)[held],))
    row_of = np.full(N, -1)
    row_of[held] = np.arange(held.size)
    sides["shop"] = PredictingParty(part, own, held.size, row_of=row_of)
    found = predict_rows(forest.roles_, InProcess(sides))
    gaps = X.copy()
    gaps.loc[row_of < 0, "visits"] = np.nan
    assert np.array_equal(found, forest.predict_proba(gaps))


def test_parts_are_given_away_only_with_consent():
    forest = fitted()
    with pytest.raises(PolicyError, match="has not consented to give away its part of the forest"):
        join_parts(InProcess(predicting(forest)))
    joined = join_parts(InProcess(predicting(forest, consents=True)))
    assert joined.consent == ("bank", "shop")
    assert replace(joined, consent=()).to_bytes() == forest.model_.to_bytes()


def test_a_party_without_labels_names_no_values():
    forest = fitted()
    named = name_leaves(forest.roles_, InProcess(predicting(forest)), 0, 1)
    with pytest.raises(ProtocolError, match="does not hold the labels"):
        predicting(forest)["shop"].answer(ValuesAsk(replace(named, ownership=None)))
    with pytest.raises(ProtocolError, match="does not answer"):
        predicting(forest)["shop"].answer(Ask())
