"""An audit that Spinney 0.1.0 wrote is still read, and every field says what it said."""

from pathlib import Path

import msgspec

from spinney.report.audited import load_audit

STORED = Path(__file__).parent / "data" / "audit-1.json"


def test_a_stored_audit_is_read_as_it_was_written():
    found = load_audit(STORED)
    assert found.format == 1
    assert found.target == "runs/readmission"
    assert [one.name for one in found.models] == ["as trained", "hardened"]
    again = msgspec.json.decode(msgspec.json.encode(found))
    since: dict[str, object] = {"limits": {}}  # a field that 0.1.0 did not have
    assert again == msgspec.json.decode(STORED.read_bytes()) | since
