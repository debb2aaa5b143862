"""Peers in processes of their own: one that crashes or is missing says so, the others go on."""

from importlib import import_module

import pytest

peers = import_module("peers.peers")
running = import_module("peers.running")


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = tmp_path_factory.mktemp("peers") / "rows.npz"
    peers.Workload(900, 600).save(path)
    return path


def pooled(name, learner, **settings):
    return peers.Peer(name, "pooled", {"learner": learner, **settings}, "pooled")


def test_a_peer_that_crashes_has_a_row_that_says_so_and_the_rest_goes_on(rows, capsys):
    forest = "sklearn.ensemble.RandomForestClassifier"
    found = running.interleaved(
        (
            pooled("raises", "sklearn.ensemble.NoSuchForest"),
            pooled("aborts", "os.abort"),
            pooled("runs", forest, n_estimators=3, max_depth=3, random_state=0),
        ),
        rows,
        1,
        install=False,
    )
    by = {row["learner"]: row for row in found}
    assert by["raises"]["note"].startswith("failed: crashed (exit 1): AttributeError")
    assert by["aborts"]["note"].startswith("failed: crashed (exit -6)")
    assert by["runs"]["accuracy"] > 0.6
    assert by["runs"]["MB that travel"] > 0
    assert "accuracy" not in by["raises"]
    assert "runs: {" in capsys.readouterr().out


def test_a_peer_that_is_not_installed_is_skipped_with_the_reason(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "ENVIRONMENTS", tmp_path)
    missing = next(peer for peer in peers.PEERS if peer.name == "FedTree")
    (row,) = running.interleaved((missing,), rows, 1, install=False)
    assert row["note"].startswith("skipped: not installed: run with --install, which does pip")


def test_spinney_itself_runs_over_the_parties_and_tells_its_bytes(rows):
    (ours,) = (peer for peer in peers.PEERS if peer.name == "Spinney")
    (row,) = running.interleaved((ours,), rows, 1, install=False)
    assert row["accuracy"] > 0.7
    assert row["MB that travel"] > 0


def test_an_install_that_fails_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "ENVIRONMENTS", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    odd = peers.Peer("odd", "pooled", {}, "pooled", "odd", ("no-such-package-at-all",))
    python, why = running.python_of(odd, install=True)
    assert not python
    assert why.startswith("pip install no-such-package-at-all failed: ")
    assert not (tmp_path / "odd").exists()  # or the next run would take it for installed
