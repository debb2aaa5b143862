"""A party's checks before an answer and its records after it, for every protocol.

A question must repeat the settings and the schema of the accepted job. Every level of the trees has
only one version, so that nobody can try out splits. A masked sum is opened for only one set of
parties.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from spinney.deployment.party.progress import Advance
from spinney.errors import PolicyError, ProtocolError, StorageError
from spinney.files import write_whole
from spinney.protocols.accounts.account import ClaimsAsk
from spinney.protocols.rows.setup import SchemaAsk
from spinney.protocols.settings import PrivacySettings
from spinney.protocols.spec import CommonSettings
from spinney.report.file_names import CANDIDATE, MODEL
from spinney.transport import codec
from spinney.transport.channel import Answering, Ask


class RunRecord:
    """The facts that a party must remember about a run, on its disk, one per line."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._path = folder / "facts.jsonl"
        self.disclosed = folder / "disclosures.jsonl"
        self._facts: dict[str, str] = {}
        for path in (self._path, self.disclosed):
            _drop_half_a_line(path)
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                fact = json.loads(line)
                self._facts.setdefault(fact["what"], fact["is"])

    def get(self, what: str) -> str | None:
        """Return a fact; None if unknown."""
        return self._facts.get(what)

    def settle(self, what: str, value: str) -> bool:
        """Record a fact unless there is one; return whether the recorded fact equals this one."""
        if what not in self._facts:
            self._append(self._path, {"what": what, "is": value})
            self._facts[what] = value
        return self._facts[what] == value

    def keep_model(self, model: bytes) -> None:
        """Keep the run's model."""
        self._keep(MODEL, model)
        self.drop_candidate()

    def keep_candidate(self, model: bytes) -> None:
        """Keep a model that has not left, so that it can be audited."""
        self._keep(CANDIDATE, model)

    def drop_candidate(self) -> None:
        """Erase a model that has not left."""
        (self.folder / CANDIDATE).unlink(missing_ok=True)

    def _keep(self, name: str, model: bytes) -> None:
        try:
            write_whole(self.folder / name, model)
        except StorageError as error:  # its text has a path
            raise _no_room(error.public) from None

    def disclose(self, **fields_: object) -> None:
        """Record that something leaves the party."""
        self._append(self.disclosed, {"at": now(), **fields_})

    @staticmethod
    def _append(path: Path, value: dict[str, object]) -> None:
        line = memoryview(json.dumps(value).encode() + b"\n")
        try:
            with path.open("ab", buffering=0) as file:
                while line:
                    line = line[file.write(line) :]
                os.fsync(file.fileno())
        except OSError as error:
            _drop_half_a_line(path)
            raise _no_room(str(error)) from None


class Guarded:
    """A party that answers only questions of the job that it accepted.

    Parameters
    ----------
    party
        Gives the answers.
    settings, schema_digest
        The facts that every question must repeat; parties with different columns have no common
        schema.
    record
        Records what leaves.
    masked
        Whether sums are masked.
    advance
        Receives every answered question.
    note_exact
        For jobs without noise: first records in the ledger that a question is answered exactly.
    """

    def __init__(
        self,
        party: Answering,
        settings: CommonSettings,
        schema_digest: str | None,
        record: RunRecord,
        *,
        masked: bool,
        advance: Advance,
        note_exact: Callable[[Ask[Any]], None] | None = None,
    ) -> None:
        self._party = party
        self._settings = settings
        self._schema_digest = schema_digest
        self._record = record
        self._masked = masked
        self._advance = advance
        self._note_exact = note_exact

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question if it belongs to the job; record what leaves."""
        self._require_agreed(ask)
        if isinstance(ask, ClaimsAsk):
            self._require_own_claims(ask)
        self._require_one_story(ask)
        if self._note_exact is not None and not isinstance(ask, SchemaAsk):
            self._note_exact(ask)
        reply = self._party.answer(ask)
        masked = self._masked and ask.is_summable
        # Masked replies leave as numbers; shared noise cannot even be packed without masks.
        ring = ask.to_ring(reply) if masked else ()
        self._record.disclose(
            question=ask.called(),
            reveals=ask.reveals,
            protection="masked: only the sum over parties is seen" if masked else "none",
            bytes=sum(v.nbytes for v in ring) if masked else codec.encoded_size(reply),
        )
        self._advance.answered(ask)
        return reply

    def _require_agreed(self, value: Any) -> None:
        """Refuse a question whose settings, terms or schema differ from the accepted ones.

        The check visits every nested value of the question, by type.
        """
        if isinstance(value, type(self._settings)):
            if value != self._settings:
                raise _outside("settings")
            return
        if isinstance(value, PrivacySettings):
            if value != self._settings.privacy:
                raise _outside("privacy settings")
            return
        for name, inner in _parts(value):
            if name == "schema_digest" and inner != (self._schema_digest or inner):
                raise _outside("schema")
            self._require_agreed(inner)

    def _require_own_claims(self, ask: ClaimsAsk) -> None:
        """Refuse questions about the ledger's claims of any other job."""
        privacy = self._settings.privacy
        if privacy is None or ask.job != privacy.job:
            raise _outside("claims")

    def _require_one_story(self, ask: Ask[Any]) -> None:
        """Refuse steps that differ from those that this party received before."""
        for depth, told in enumerate(ask.story):
            if not self._record.settle(f"level {depth}", sha256(told.pack()).hexdigest()):
                raise ProtocolError(
                    f"Level {depth + 1} of the trees differs from what this party received before. "
                    "Nothing was released."
                )


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield all nested values, with the names of their fields."""
    if isinstance(value, tuple | list):
        yield from (("", inner) for inner in value)
    elif isinstance(value, dict):
        yield from (("", inner) for inner in value.values())
    elif is_dataclass(value):
        yield from ((field.name, getattr(value, field.name)) for field in fields(value))


def _drop_half_a_line(path: Path) -> None:
    """Cut off an incomplete last line after a crash or a full disk; nothing relied on it."""
    with suppress(FileNotFoundError), path.open("rb+") as file:
        file.truncate(file.read().rfind(b"\n") + 1)


def now() -> str:
    """Return the time, for the records."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _no_room(local: str) -> StorageError:
    return StorageError(
        "This party cannot record what leaves it, so nothing leaves. Make room on its disk, then "
        "resume the job.",
        local=local,
    )


def _outside(what: str) -> PolicyError:
    return PolicyError(
        f"The question is outside the job that this party accepted: its {what} differ. "
        "Nothing was released."
    )
