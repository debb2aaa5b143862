"""Evolved trees over parties: the same whatever the channel, with parties coming and going."""

from typing import Any

import numpy as np
import pytest

from spinney import GeneticTreeClassifier, GeneticTreeRegressor, deal_rows
from spinney.errors import PartyLostError, ProtocolError, TableError
from spinney.protocols import genetic_tree
from spinney.protocols.accounts.account import JoinAsk
from spinney.protocols.genetic_tree.coordinator import (
    Search,
    _active,
    _median,
)
from spinney.protocols.genetic_tree.gathered import gather_trees, home_model
from spinney.protocols.genetic_tree.local_fit import Home
from spinney.protocols.genetic_tree.messages import (
    EvolvingJob,
    ScoresAsk,
    StructureAsk,
)
from spinney.protocols.settings import ForestSettings
from spinney.transport.in_process import InProcess
from spinney.trees.evolution import Population
from unit.protocols.genetic_tree.evolved_parties import (  # type: ignore[import-not-found]
    SMALL,
    masked,
    model_of,
    parties_of,
    settings,
    tables_of,
)

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


# --- the same trees ------------------------------------------------------------------------------


class Backwards(InProcess):
    """A channel on which the last party answers first."""

    def __init__(self, parties):
        super().__init__(dict(reversed(parties.items())), through_codec=True)


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_same_seeds_give_the_same_trees_over_any_channel(tables, label, participation):
    how = {"participation": participation}
    first = model_of(tables, label, **how)
    for connect in (lambda p: InProcess(p, through_codec=True), Backwards, masked):
        other = model_of(tables, label, connect=connect, **how)
        assert np.array_equal(other.genes, first.genes)
        for name in tables:
            mine, theirs = (found.model.of_owner(name).to_bytes() for found in (first, other))
            assert mine == theirs
    assert not np.array_equal(model_of(tables, label, seed=2, **how).genes, first.genes)


def test_the_order_of_a_party_s_rows_does_not_matter(tables, label):
    first = model_of(tables, label)
    turned = {name: table.select(np.arange(table.n_rows)[::-1]) for name, table in tables.items()}
    assert model_of(turned, label).model.to_bytes() == first.model.to_bytes()


def test_a_score_s_sum_is_weighed_by_rows(tables, label):
    parties = parties_of(tables)
    evolved = genetic_tree.train(InProcess(parties), settings(label))
    ask = ScoresAsk(evolved.job, evolved.depth, 0, tuple(tables), False, evolved.genes)
    sums = [party.answer(ask).sums for party in parties.values()]
    assert [int(one[-1]) for one in sums] == [table.n_rows for table in tables.values()]
    idle = ScoresAsk(evolved.job, evolved.depth, 0, ("nobody",), False, evolved.genes)
    assert not np.any(parties["0"].answer(idle).sums)


# --- coming and going ----------------------------------------------------------------------------


class Absent:
    """A party that is not there for some of its questions."""

    def __init__(self, party, is_there):
        self._party, self._is_there, self.asked = party, is_there, []

    def answer(self, ask):
        self.asked.append(type(ask).__name__)
        if not self._is_there(ask):
            raise PartyLostError("The party does not answer.")
        return self._party.answer(ask)


def test_a_party_that_never_answers_is_named(tables, label):
    parties: dict[str, Any] = parties_of(tables)
    parties["2"] = Absent(parties["2"], lambda _: False)
    with pytest.raises(PartyLostError, match="Party '2': The party does not answer"):
        genetic_tree.train(InProcess(parties), settings(label))


def test_a_party_that_leaves_does_not_end_the_job(tables, label):
    parties = parties_of(tables)
    channel = InProcess(
        parties | {"2": Absent(parties["2"], lambda ask: not isinstance(ask, ScoresAsk))}
    )
    evolved = genetic_tree.train(channel, settings(label))
    assert len(evolved.genes) >= 8
    for heard in channel.rounds:
        if heard.question == "Scores":
            assert heard.answered == ("0", "1", "3")


def test_a_party_may_join_at_the_last_generation(tables, label):
    parties = parties_of(tables)
    last = SMALL["n_generations"] - 1

    def is_there(ask):
        if isinstance(ask, StructureAsk):
            return late.asked.count("StructureAsk") > last
        return not isinstance(ask, ScoresAsk) or ask.generation == last

    late = Absent(parties["2"], is_there)
    evolved = genetic_tree.train(InProcess(parties | {"2": late}), settings(label))
    assert late.asked.count("StructureAsk") == last + 1
    assert gather_trees(evolved, parties).model.owners == ("0", "1", "2", "3")


def test_late_joiners_send_their_structure_once(tables, label):
    channel = InProcess(parties_of(tables))
    genetic_tree.train(channel, settings(label, participation=0.25, n_generations=12))
    asked = [name for r in channel.rounds if r.question == "Structure" for name in r.answered]
    assert len(asked) == len(set(asked)) > 1


def test_survivors_are_judged_again_by_other_rows_or_other_parties(tables, label, monkeypatch):
    monkeypatch.setattr(Home, "vote_for_all_rows", lambda *_: True)
    by_all_rows = label == "amount"
    for participation, again in ((1.0, not by_all_rows), (0.5, True)):
        n_judged: list[int] = []

        def hears(ask, heard=n_judged):
            if isinstance(ask, ScoresAsk):
                heard.append(len(ask.genes))
            return True

        parties = parties_of(tables)
        channel = InProcess(parties | {"0": Absent(parties["0"], hears)})
        genetic_tree.train(channel, settings(label, participation=participation))
        assert (n_judged[-1] >= 2 * SMALL["population_size"]) == again


def test_when_nobody_answers_the_job_ends_in_words(tables, label):
    parties = {
        name: Absent(party, lambda ask: "Scores" not in type(ask).__name__)
        for name, party in parties_of(tables).items()
    }
    with pytest.raises(PartyLostError, match="parties answered ScoresAsk"):
        genetic_tree.train(InProcess(parties), settings(label))


def test_active_parties_are_drawn_by_name(tables, label):
    half = settings(label, participation=0.5)
    one, other = InProcess(parties_of(tables)), Backwards(parties_of(tables))
    turns = [_active(one, half, turn) for turn in range(20)]
    assert turns == [_active(other, half, turn) for turn in range(20)]
    assert {len(active) for active in turns} == {2}
    assert len(set(turns)) > 3


def test_the_median_of_depths_is_found_from_their_counts():
    for depths in ([0], [3], [0, 3], [1, 1], [1, 2, 2, 5], [0, 2, 2, 2, 3], [4, 4, 5, 7, 7, 7]):
        assert _median(np.bincount(depths, minlength=9)) == np.ceil(np.median(depths))


# --- votes, homes, sizes -------------------------------------------------------------------------


@pytest.mark.parametrize(("n_yes", "decided"), [(3, True), (2, False)])
def test_votes_decide_by_more_than_half(n_yes, decided, ward_table, ward_labels, monkeypatch):
    parties = parties_of(tables_of(ward_table, ward_labels["amount"], "amount"))
    yes, protected = iter([True] * n_yes + [False] * (4 - n_yes)), []
    monkeypatch.setattr(Home, "vote_for_all_rows", lambda *_: next(yes))
    monkeypatch.setattr(Home, "vote_for_elitism", lambda *_: decided)
    monkeypatch.setattr(Population, "protect", lambda _, genes: protected.append(genes))
    evolved = genetic_tree.train(InProcess(parties), settings("amount", n_generations=1))
    assert evolved.all_rows is decided
    assert evolved.elitism is decided
    assert [len(genes) for genes in protected] == ([4, 0] if decided else [])


def test_parties_own_structures_are_the_first_seeds(tables, label):
    parties = parties_of(tables)
    channel = InProcess(parties)
    job = EvolvingJob(settings(label), tables["0"].schema.digest(), 4, None)
    search = Search.begun(channel, job, tables["0"].schema)
    own = np.stack([parties[name].home(job).structure(search.depth) for name in sorted(parties)])
    coming = search._coming
    assert len(coming) == SMALL["population_size"]
    assert np.array_equal(coming[-4:], own)
    assert not np.array_equal(coming[:4], own)  # the others are drawn


@pytest.mark.parametrize("metric", ["mse", "r2", "rae"])
def test_numbers_are_evolved_for_every_metric(metric, ward_table, ward_labels):
    found = model_of(
        tables_of(ward_table, ward_labels["amount"], "amount"), "amount", metric=metric
    )
    assert len(found.history) == SMALL["n_generations"]
    sign = -1 if metric == "r2" else 1
    quality = found.quality["0"].scores
    assert sign * quality[metric] <= sign * quality[f"home_{metric}"] + 1e-9


def test_with_a_fixed_validation_scores_never_fall(tables, label):
    found = model_of(tables, label, validation="fixed", n_generations=8)
    sign = -1 if label == "amount" else 1
    assert np.all(np.diff(sign * np.array(found.history)) >= 0)


def test_nobody_is_worse_off_than_at_home_on_its_own_validation_rows(tables, label):
    found = model_of(tables, label)
    metric = "mse" if label == "amount" else "f1"
    sign = -1 if metric == "mse" else 1
    for quality in found.quality.values():
        scores = quality.scores
        assert sign * scores[metric] >= sign * scores[f"home_{metric}"]
        if scores["kept_home"]:
            assert scores["nodes"] == scores["home_nodes"]
    kept = sum(quality.scores["kept_home"] for quality in found.quality.values())
    assert kept == found.n_kept_home
    anyway = model_of(tables, label, keep_home=False)
    assert anyway.n_kept_home == 0


def test_home_trees_are_those_a_party_grows_alone(tables, label):
    parties = parties_of(tables)
    evolved = genetic_tree.train(InProcess(parties), settings(label))
    homes = home_model(evolved, parties)
    alone = parties_of({"1": tables["1"]})
    by_itself = genetic_tree.train(InProcess(alone), settings(label))
    mine = home_model(by_itself, alone).of_owner("1")
    assert mine.forest.feature.tolist() == homes.of_owner("1").forest.feature.tolist()


# --- bad input -----------------------------------------------------------------------------------


def test_a_party_with_fewer_rows_than_folds_is_refused(tables, label):
    tables["1"] = tables["1"].select(np.arange(2))
    with pytest.raises(TableError, match="Party '1': This party has fewer rows than the 3 folds"):
        genetic_tree.train(InProcess(parties_of(tables)), settings(label))


def test_a_party_may_have_one_class_only(ward_table, ward_labels):
    y = ward_labels["two classes"]
    site = np.where(y == "ill", deal_rows(y, 3, random_state=0), 3)
    model = GeneticTreeClassifier(6, n_generations=3, random_state=0).fit(ward_table, y, party=site)
    assert set(model.predict(ward_table, party=3)) == {"well"}
    assert model.tree_of_[3].n_decisions == 0


def test_a_constant_target_is_predicted(ward_table):
    y = np.full(len(ward_table), 3.5)
    model = GeneticTreeRegressor(6, n_generations=3, random_state=0)
    model.fit(ward_table, y, party=deal_rows(y, 3, random_state=0))
    assert np.all(model.predict(ward_table, party="1") == 3.5)


@pytest.mark.parametrize(
    "change",
    [
        {"depth": 9},
        {"genes": np.zeros((0, 3), np.int16)},
        {"genes": np.full((1, 3), 99, np.int16)},
        {"genes": np.zeros((1, 5), np.int16)},
    ],
)
def test_a_party_refuses_structures_that_do_not_fit(change, tables, label):
    party = parties_of(tables)["0"]
    evolved = genetic_tree.train(InProcess(parties_of(tables)), settings(label))
    facts = {"depth": 2, "genes": np.zeros((1, 3), np.int16)} | change
    ask = ScoresAsk(evolved.job, facts["depth"], 0, ("0",), False, facts["genes"])
    with pytest.raises(ProtocolError, match=r"depth|structures"):
        party.answer(ask)


def test_a_question_of_another_protocol_is_not_answered(tables):
    ask = JoinAsk(ForestSettings(task="classification"), "", 3)
    with pytest.raises(ProtocolError, match="A party in genetic_tree does not answer JoinAsk"):
        parties_of(tables)["0"].answer(ask)
