"""One of a kind is in the singular."""

from spinney.cli.ledgers import LedgerDescription, verify_ledger
from spinney.cli.models import PartDescription
from spinney.deployment.text import party_page
from spinney.privacy.ledger import Ledger


def test_one_of_a_kind_is_in_the_singular(tmp_path):
    assert str(LedgerDescription("north", 1, {}, ())) == (
        "ledger of 'north': 1 entry; 0 releases in 0 jobs"
    )
    Ledger.open(tmp_path / "ledger.db", "north").close()
    assert "is intact: 1 entry, none" in verify_ledger(tmp_path / "ledger.db")
    run = {
        "run": "0" * 8,
        "job": "q3",
        "releases": 1,
        "last": "2026-11-16T13:16:01.952+00:00",
        "has_model": True,
    }
    assert (
        "00000000  q3: 1 reply, the last at 2026-11-16 13:16:01 UTC; the model is kept"
        in party_page({"party": "north"}, [run])
    )
    part = PartDescription("p", "bank", 1, {"age": 1}, 1, has_leaves=False)
    assert "bank's part of a forest of 1 tree\nhas 1 split; 1 split belongs to others" in str(part)
