"""Peers in processes of their own: one that crashes or is missing says so, the others go on."""

import json
import sys
from importlib import import_module

import pytest

command = import_module("peers.__main__")
page = import_module("papers.page")
peers = import_module("peers.peers")
running = import_module("peers.running")
telling = import_module("peers.telling")
SMALL = peers.Workload(900, 600)
FOREST = "sklearn.ensemble.RandomForestClassifier"


def pooled(name, learner, **settings):
    return peers.Peer(name, "pooled", {"learner": learner, **settings}, "pooled")


def rows_of(*some, n_turns=1):
    return {
        case.peer.name: case.row()
        for case in running.interleaved(some, SMALL, n_turns, install=False)
    }


@pytest.mark.slow(reason="it tests the benchmarks' own harness, with processes of its own: seconds")
def test_a_peer_that_crashes_or_says_nothing_has_a_row_that_says_so_and_the_rest_goes_on(capsys):
    by = rows_of(
        pooled("raises", "sklearn.ensemble.NoSuchForest"),
        pooled("aborts", "os.abort"),
        pooled("is silent", "os._exit", status=0),
        pooled("runs", FOREST, n_estimators=3, max_depth=3),
    )
    assert by["raises"]["note"].startswith("failed: crashed (exit 1): AttributeError")
    assert by["aborts"]["note"].startswith("failed: crashed (exit -6)")
    assert by["is silent"]["note"] == "failed: ended without a result: no message"
    assert by["runs"]["accuracy"] > 0.6
    assert by["runs"]["MB that travel"] > 0
    assert not any("accuracy" in by[name] for name in ("raises", "aborts", "is silent"))
    assert "runs : {" in capsys.readouterr().out


def test_a_peer_that_prints_after_its_result_is_heard_and_its_row_says_so(tmp_path):
    adapter = tmp_path / "chatty.py"
    adapter.write_text(
        "import atexit\n"
        "atexit.register(print, 'good bye')\n"
        "def trained(rows, *, seed):\n"
        "    facts = {'bytes': 0, 'rounds': 1, 'version': '1'}\n"
        "    return (lambda X: X[:, 0] > 0), (lambda: facts)\n",
        encoding="utf-8",
    )
    chatty = peers.Peer("chatty", str(adapter.with_suffix("")), {}, "federated", note="talks")
    (row,) = rows_of(chatty).values()
    assert row["accuracy"] > 0
    assert row["note"] == "talks; printed after its result: good bye"


def test_a_peer_that_is_not_installed_is_skipped_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "ENVIRONMENTS", tmp_path)
    missing = next(peer for peer in peers.PEERS if peer.name == "FedTree")
    (row,) = rows_of(missing).values()
    assert row["note"].startswith("skipped: not installed: run with --install, which does pip")


def test_spinney_itself_runs_over_the_parties_and_tells_its_bytes_and_rounds():
    (ours,) = (peer for peer in peers.PEERS if peer.name == "Spinney")
    (row,) = rows_of(ours).values()
    assert row["accuracy"] > 0.7
    assert row["MB that travel"] > 0
    assert row["rounds"] > peers.DEPTH


@pytest.mark.slow(reason="it tests the benchmarks' own harness, with processes of its own: seconds")
def test_every_turn_has_rows_and_a_seed_of_its_own():
    some = pooled("some", FOREST, n_estimators=3, max_depth=3)
    (case,) = running.interleaved((some,), SMALL, 2, install=False)
    (again,) = running.interleaved((some,), SMALL, 2, install=False)
    first, second = case.each("accuracy")
    assert first != second
    assert again.each("accuracy") == [first, second]
    assert case.row()["accuracy"] == pytest.approx((first + second) / 2, abs=1e-4)
    assert case.row()["sd"] > 0


@pytest.mark.slow(reason="it tests the benchmarks' own harness, with processes of its own: seconds")
def test_an_install_that_fails_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "ENVIRONMENTS", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    odd = peers.Peer("odd", "pooled", {}, "pooled", "odd", ("no-such-package-at-all",))
    python, why = running.python_of(odd, install=True)
    assert not python
    assert why.startswith("pip install no-such-package-at-all failed: ")
    assert not (tmp_path / "odd").exists()  # or the next run would take it for installed


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Run the command over peers that only pretend; return what it kept, and the page."""

    def show(failing=(), *, installed=False):
        def once(peer, _python, _rows, _n_threads, _n_tries):
            if peer.name in failing:
                return [{"failed": "crashed"}] * len(peer.grid)
            found = {"seconds": 1.0, "cpu": 1.0, "foreign": 0.5, "peak MB": 1.0, "accuracy": 0.9}
            return [{**found, "bytes": 1, "rounds": 1, "version": "1"} for _ in peer.grid]

        for name in {peer.environment for peer in (*peers.PEERS, *peers.PRIVATE)} - {""}:
            python = tmp_path / name / "bin" / "python"
            python.parent.mkdir(parents=True)
            if installed:
                python.touch()
        monkeypatch.setattr(running, "ENVIRONMENTS", tmp_path)
        monkeypatch.setattr(running, "once", once)
        for name, (who, _, told) in command.MEASURED.items():
            monkeypatch.setitem(command.MEASURED, name, (who, SMALL, told))
        monkeypatch.setattr(command, "RESULTS", tmp_path)
        monkeypatch.setattr(command, "PUBLISHED", tmp_path / "published")
        monkeypatch.setattr(sys, "argv", ["peers", "--repeats", "2"])
        assert command.main() == 0
        assert (tmp_path / "published" / "peers_tried.json").exists()  # before it measured
        monkeypatch.setattr(page, "NAMES", ())
        monkeypatch.setattr(page, "PUBLISHED", tmp_path / "peers")
        kept = (tmp_path / "peers" / "peers_public.json").read_text(encoding="utf-8")
        return json.loads(kept), page.made()

    return show


def test_with_all_federated_peers_skipped_the_rest_is_kept_and_the_page_reads_well(shown):
    kept, text = shown()
    federated = [row for row in kept["tables"][0]["rows"] if row["kind"] == "federated"]
    assert len(federated) == 8
    assert all(row["note"].startswith("skipped: not installed") for row in federated)
    assert "No federated peer ran: `make peers INSTALL=1` installs them." in text
    assert "Our forest reaches 0.9000 ± 0.0000. scikit-learn on pooled rows reaches" in text
    assert "Not run: FedTree, flwr-trees forest, " in text
    assert "The machine was not quiet (others used 50 % of the cores)" in text
    same = "same budget: at each epsilon 6 settings, its own defaults among them, tried on 2"
    assert same in text
    assert "At epsilon 1 Spinney, private boosting reaches 0.9000 ± 0.0000 as it comes. " in text
    assert kept["turns"][0] == {"learner": "Spinney", "seconds": [1, 1], "accuracy": [0.9, 0.9]}
    assert kept["cells"]["stored"] == kept["runs"][0]["cells"] == kept["cells"]["wanted"] - 8


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Spinney", "Our forest did not run. scikit-learn on pooled rows reaches 0.9000"),
        ("Spinney, masked", "than 0 of the 8. Spinney, masked did not run. "),
        ("scikit-learn", "Our forest reaches 0.9000 ± 0.0000. scikit-learn on pooled rows did not"),
        ("diffprivlib", "Not run: diffprivlib."),
    ],
)
def test_without_one_of_us_or_of_the_yardsticks_the_page_reads_well(shown, name, said):
    assert said in shown(failing=(name,), installed=True)[1]


def test_nothing_at_all_ran(shown):
    names = {peer.name for peer in (*peers.PEERS, *peers.PRIVATE)}
    kept, text = shown(failing=names)
    assert kept["cells"]["stored"] == 0
    assert "Our forest did not run. scikit-learn on pooled rows did not run." in text


def test_private_learners_have_the_same_budget_of_tries_and_begin_with_their_own_settings():
    for peer in peers.PRIVATE:
        for epsilon in peers.EPSILONS:
            grid = [one for one in peer.grid if one["epsilon"] == epsilon]
            assert grid[0] == {"epsilon": epsilon}
            assert len(grid) == (1 if peer.name.endswith(", DP") else peers.TRIES)


def test_tuned_federated_learners_have_the_same_budget_of_tries_and_begin_with_their_own():
    for peer in peers.PEERS:
        tuned = peer.name in ("flwr-trees XGBoost", "Spinney boosting, masked")
        assert peer.grid[0] == {}
        assert len(peer.grid) == (peers.PUBLIC_TRIES if tuned else 1)
        assert not [one for one in peer.grid[1:] if peer.grid.count(one) > 1]


def test_the_quickest_setting_of_each_level_is_measured_or_else_the_most_accurate():
    def tried(*found):
        peer = peers.Peer("some", "ours", {}, "ours")
        return [
            running.Case(peer, {"max_depth": n}, [{"accuracy": right, "cpu": cpu}])
            for n, (right, cpu) in enumerate(found)
        ]

    def chosen(*found):
        return [one["max_depth"] for one in running.quickest_at_each_level(tried(*found))]

    assert chosen((0.5, 1.0), (0.94, 3.0), (0.96, 2.0), (0.98, 9.0)) == [0, 2, 3]
    assert chosen((0.94, 1.0), (0.96, 2.0), (0.94, 0.5)) == [0, 2, 1]
    assert chosen((0.5, 1.0), (0.9, 2.0), (0.8, 1.0)) == [0, 1]
    missing = running.Case(peers.Peer("some", "ours", {}, "ours"), {"a": 1}, [{"skipped": "why"}])
    assert running.quickest_at_each_level([missing]) == [{"a": 1}]


def test_settings_are_chosen_on_turns_that_do_not_count(monkeypatch):
    seen = []

    def once(peer, _python, rows, n_threads, n_tries):
        seen.append(int(rows.stem))
        assert n_tries == (1 if seen[-1] >= peers.TUNED_ON else 3)
        assert n_threads == (1 if seen[-1] >= peers.TUNED_ON else 2)
        good = {2: 0.8, None: 0.7, 3: 0.6}
        return [{"accuracy": good[one.get("max_depth")]} for one in peer.grid]

    monkeypatch.setattr(running, "once", once)
    grid = tuple({"epsilon": 1.0, **one} for one in ({}, {"max_depth": 2}, {"max_depth": 3}))
    asked = peers.Peer("some", "ours", {}, "ours", grid=grid)
    choose = running.best_at_each_epsilon
    (settled,), tried = running.tuned((asked,), SMALL, choose, n_tries=1, install=False)
    assert settled.grid == grid[:2]
    assert [one.each("accuracy")[0] for one in tried] == [0.7, 0.8, 0.6]
    assert seen == [peers.TUNED_ON, peers.TUNED_ON + 1]
    running.interleaved((settled,), SMALL, 10, install=False)
    assert not set(seen[:2]) & set(seen[2:])


def case(name, *accuracies):
    turns = [{"accuracy": one} for one in accuracies]
    return running.Case(peers.Peer(name, "", {}, "ours"), {}, turns)


def test_who_is_ahead_is_said_only_where_the_turns_can_tell():
    good, bad, odd = case("good", 0.9, 0.8), case("bad", 0.8, 0.701), case("odd", 0.8, 0.9)
    assert telling.against(good, bad).endswith("above in 2 of 2, so good is ahead")
    assert telling.against(bad, good).endswith("above in 0 of 2, so bad is behind")
    assert telling.against(good, odd).endswith("above in 1 of 2, which is within the scatter")
