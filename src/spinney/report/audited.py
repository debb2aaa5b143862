"""What an audit found: `audit.json` in a run's folder.

Every share stands with its exact 95 % interval. What could not be tried is said in `notes`; an
audit that tried nothing has found nothing, and its limits are not kept.
"""

from hashlib import sha256
from pathlib import Path

import msgspec

from spinney.errors import StorageError
from spinney.report.file_names import AUDIT
from spinney.version import __version__

FORMAT = 1
AS_TRAINED, HARDENED = "as trained", "hardened"


class Share(msgspec.Struct, frozen=True):
    """A share of tries, with its exact 95 % interval (Clopper and Pearson 1934)."""

    share: float
    low: float
    high: float
    hits: int
    tries: int


class Groups(msgspec.Struct, frozen=True):
    """Structures of a model with fewer than `least` rows; a cell is one class of a leaf."""

    least: int
    smallest_leaf: int
    leaves: int
    small_leaves: int
    small_nodes: int
    small_cells: int
    exact_counts: bool  # whether nodes hold exact counts of rows
    noisy: bool = False  # whether counts carry noise, so that a small one says little about rows


class Rebuilt(msgspec.Struct, frozen=True):
    """What one view shows of the training rows."""

    view: str
    structures: int  # nodes and leaves in which one row stands alone in its class
    isolated: Share | None = None  # of the rows; None: the rows are not here
    cells: Share | None = None  # of the isolated rows' cells: within 2 % of their column's range
    guessed: float | None = None  # the same share, for whoever knows the columns but not the view
    error: float | None = None  # mean distance to the cells, in ranges; a wrong category counts 1
    guessed_error: float | None = None


class MembershipAt(msgspec.Struct, frozen=True):
    """How many members are found at one rate of false alarms."""

    wanted: float  # the rate of false alarms that was asked for
    found: Share  # members that were called members
    false: Share  # others that were called members
    rows_needed: int  # 0: there are enough rows to say this


class Membership(msgspec.Struct, frozen=True):
    """Membership inference by likelihood ratios (LiRA), with models trained on half the rows."""

    n_models: int
    n_rows: int
    area: float  # under the attack's ROC curve; 0.5 is guessing
    at: tuple[MembershipAt, ...]


class Attribute(msgspec.Struct, frozen=True):
    """The column that gives most away of members, to whoever knows all their other cells."""

    column: str
    members: Share  # cells guessed right from the model
    others: Share  # the same for rows that were not in training
    guessed: float  # without the model


class Released(msgspec.Struct, frozen=True):
    """One model that could leave, and what a reader gets out of it."""

    name: str  # "as trained" or "hardened"
    digest: str
    groups: Groups
    rebuilt: Rebuilt
    membership: Membership | None = None
    attribute: Attribute | None = None
    auc: float | None = None  # on rows that were not in training; R2 for numbers


class EpsilonFound(msgspec.Struct, frozen=True):
    """A lower bound on epsilon from runs with and without one row, beside what is claimed."""

    claim: float
    delta: float
    bound: float
    n_runs: int  # on each of the two tables
    event: str
    most: float  # the largest bound that so many runs can show
    always_same: bool  # whether every run on a table gave the same numbers: there is no noise

    @property
    def is_refuted(self) -> bool:
        """Whether the runs disprove the claim."""
        return self.bound > self.claim or self.always_same


class Audit(msgspec.Struct, frozen=True):
    """All that an audit tried, and what it got."""

    target: str
    protocol: str
    n_rows: int  # 0: the rows are not here
    models: tuple[Released, ...]
    sums: tuple[Rebuilt, ...] = ()  # what the coordinator and other parties saw while it grew
    epsilon: EpsilonFound | None = None
    notes: tuple[str, ...] = ()
    leaving: str = HARDENED  # the model that is compared with the limits
    broken: tuple[str, ...] = ()  # limits of the party's policy that are not kept
    limits: dict[str, float] = {}  # those of the party's policy that were set
    version: str = __version__
    format: int = FORMAT

    @property
    def judged(self) -> Released:
        """The model that is compared with the limits."""
        named = (one for one in self.models if one.name == self.leaving)
        return next(named, self.models[-1])

    def of_model(self, model: bytes) -> Released | None:
        """Return what was found about these bytes; None: they were not audited."""
        digest = sha256(model).hexdigest()
        return next((one for one in self.models if one.digest == digest), None)


class _Head(msgspec.Struct, frozen=True):
    format: int
    version: str = "that wrote it"


def load_audit(path: Path) -> Audit:
    """Read `audit.json`, or the one in a run's folder."""
    source = path / AUDIT if path.is_dir() else path
    try:
        return read_audit(source.read_bytes(), str(source))
    except OSError as error:
        raise StorageError(
            f"Cannot read {str(source)!r}: {error.strerror or error}. Run spinney audit first."
        ) from None


def read_audit(data: bytes, name: str) -> Audit:
    """Return the audit that a file holds; `name` is the file's, for errors."""
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.format != FORMAT:
            raise StorageError(
                f"{name!r} has audit format {head.format}; this Spinney ({__version__}) "
                f"reads format {FORMAT}. Audit the run again, or install Spinney {head.version}."
            )
        return msgspec.json.decode(data, type=Audit)
    except msgspec.MsgspecError as error:
        raise StorageError(
            f"{name!r} is not an audit that this Spinney can read. Audit the run again.",
            local=str(error),
        ) from None


def audit_in(folder: Path) -> Audit | None:
    """Return the audit in a run's folder; None if there is none."""
    return load_audit(folder) if (folder / AUDIT).is_file() else None
