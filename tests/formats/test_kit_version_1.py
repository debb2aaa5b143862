"""Start kits and authorities of Spinney 0.1.0, which ran on NVIDIA FLARE: they still work.

What stands in `data/kit_version_1` was written by the old code, without the private keys. Its other
files, of the engine, are left alone: nothing reads them.
"""

import json
from pathlib import Path
from shutil import copytree

import pytest

from deployed.handmade import CLINICS, agreed_job  # type: ignore[import-not-found]
from deployed.served import Served  # type: ignore[import-not-found]
from spinney.transport.remote import kits
from spinney.transport.remote.certificates import holder_of, issued_by
from spinney.transport.remote.kits import Address

DATA = Path(__file__).parent / "data" / "kit_version_1"


@pytest.mark.parametrize(
    ("side", "own", "name", "role"),
    [
        ("party", "client", "north", "client"),
        ("lead", "client", "alice@clinics.example.org", "lead"),
        ("coordinator", "server", "localhost", "server"),
    ],
)
def test_a_certificate_of_version_1_says_who_and_what_its_holder_is(side, own, name, role):
    certificate = kits.certificate_in(DATA / side, own, "")
    holder = holder_of(certificate)
    assert (holder.name, holder.role) == (name, role)
    assert issued_by(certificate, kits.authority_in(DATA / "coordinator" / "ca"))


def test_the_fingerprint_of_an_authority_of_version_1_is_the_one_that_people_know():
    known = json.loads((DATA / "coordinator" / "ca" / "ca.json").read_text())
    assert kits.fingerprint_of(DATA / "coordinator" / "ca") == known["rootCA_fingerprint"]


def test_a_kit_of_version_1_says_where_its_coordinator_is():
    assert kits.address_in(DATA / "party") == Address(
        name="clinics", host="localhost", port=18002, admin_port=18002
    )
    assert kits.address_in(DATA / "lead").admin_port == 18003


def test_nobody_else_can_read_a_kit_of_version_1_once_it_is_used(tmp_path):
    kit = copytree(DATA / "party", tmp_path / "kit")
    kits.tighten(kit)
    for path in (kit, *kit.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0


def test_a_federation_of_kits_in_the_old_layout_trains(tmp_path):
    """The certificates are of today, as stored ones expire; the files are as 0.1.0 left them."""
    served = Served(tmp_path)
    for side in (*CLINICS, "lead"):
        startup = tmp_path / side / "kit" / "startup"
        (startup / "federation.json").unlink()
        old = "fed_admin.json" if side == "lead" else "fed_client.json"
        kind = "lead" if side == "lead" else "party"
        text = (DATA / kind / "startup" / old).read_text()
        for port in ("18002", "18003"):
            text = text.replace(port, str(served.port))
        (startup / old).write_text(text)
    with served.up(*CLINICS):
        assert served.over(served.submit(agreed_job(tmp_path))).state == "finished"
