"""A deployed job in one process: the same settings, parties and `train` over the plain channel."""

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from spinney.deployment.job import Agreed
from spinney.deployment.party.config import load_party
from spinney.deployment.party.tables import (
    choose_rows,
    open_label_memory,
    open_ledger,
    read_whole_table,
)
from spinney.privacy.identities import simulated_identities
from spinney.protocols.genetic_tree.gathered import gather_trees
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.protocols.spec import PartySite
from spinney.report.door import release
from spinney.transport.in_process import InProcess


def models_of(folder: Path, agreed: Agreed) -> dict[str, bytes]:
    """Return the coordinator's model as it leaves, called "", and what each party keeps.

    Parties pay from their own ledgers: noise that was paid for is found there, and not drawn anew.
    """
    settings, sides = agreed.protocol_settings(), {}
    identities = simulated_identities(agreed.parties)
    with ExitStack() as books:
        for name in agreed.parties:
            party = load_party(folder / name / "party.toml")
            whole = read_whole_table(party, agreed)
            ledger = books.enter_context(closing(open_ledger(party)))
            memory = open_label_memory(party, settings, whole)
            site = PartySite(
                name, 1, ledger, party.ledger.data, memory=memory, is_masked=agreed.is_masked,
                run="one process", parties=agreed.parties, identity=identities[name],
            )  # fmt: skip
            sides[name] = agreed.spec.party(choose_rows(whole, party, agreed), settings, site)
        channel: Any = InProcess(sides)
        if agreed.is_masked:
            honest = agreed.honest_among(len(sides))
            channel = secure_parties(
                sides, InProcess, agreed.summed, job=agreed.name, honest=honest
            )
        training = agreed.spec.train(channel, settings, n_jobs=1, progress=lambda *_: None)
    if training.model is None:
        return _kept(training, sides, agreed)
    policies = [load_party(folder / name / "party.toml").policy for name in agreed.parties]
    terms = agreed.release.with_all(policy.terms for policy in policies)
    left = release(training.model, terms)[0].to_bytes()
    if agreed.spec.leaves == "one model":
        return dict.fromkeys(("", *sides), left)
    return {"": left} | _kept(training, sides, agreed)


def _kept(training: Any, sides: dict[str, Any], agreed: Agreed) -> dict[str, bytes]:
    """Return the model that each party keeps; of a forest over columns its part."""
    if agreed.spec.divides == "columns":
        return {name: side.finished_model.to_bytes() for name, side in sides.items()}
    everyones = gather_trees(training, sides).model
    return {name: everyones.of_owner(name).to_bytes() for name in sides}
