"""Why there is no connection: every reason of TLS is told apart, for logs, status and health."""

import shutil
from types import SimpleNamespace

import pytest

from deployed.handmade import Authority  # type: ignore[import-not-found]
from deployed.served import Served  # type: ignore[import-not-found]
from spinney.errors import ProtocolError
from spinney.transport.remote import calling
from spinney.transport.remote.kits import Credentials

CASES = {  # whose kit is another, how, and what the party is told
    "another authority of this name": (
        ("north", "north", "client"),
        {"authority": Authority(2)},
        "authority did not sign. Do not go on; ask the coordinator by telephone",
    ),
    "another authority": (
        ("north", "north", "client"),
        {"authority": Authority(2, "elsewhere")},
        "authority did not sign. Do not go on; ask the coordinator by telephone",
    ),
    "the coordinator's has expired": (
        (".", "localhost", "server"),
        {"days": -1},
        "of the coordinator at localhost has expired. It must be renewed there",
    ),
    "the clock": (
        (".", "localhost", "server"),
        {"first": 3},
        "is not valid yet. Is this machine's clock right?",
    ),
    "another name": ((".", "otherhost", "server"), {}, "is for another name"),
    "the party's has expired": (
        ("north", "north", "client"),
        {"days": -1},
        "closed the connection. It stopped, or it does not accept this certificate",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_reason_is_told_apart(tmp_path, case):
    (folder, name, role), more, words = CASES[case]
    served = Served(tmp_path)
    shutil.rmtree(tmp_path / folder / "kit")
    served.kit(folder, name, role, **more)
    kit, nobody = tmp_path / "north" / "kit", SimpleNamespace(attempt=("", 0))
    with served.up(), pytest.raises(ProtocolError) as caught:
        calling.attend(Credentials.of(kit), "here", nobody, lambda: None)
    assert words in str(caught.value)
