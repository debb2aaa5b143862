"""Every error and warning of Spinney.

```text
SpinneyError
├── SettingError (ValueError)      a parameter or config value cannot work
├── SchemaError (ValueError)       tables do not fit the schema, or each other
├── TableError (ValueError)        a table cannot be read or used
├── PolicyError                    a party refuses a job
│   └── UnauditedError             a model must be audited before it leaves
├── BudgetError                    the ledger refuses a charge; nothing was released
├── LedgerError                    the ledger cannot be read, written or trusted
├── ProtocolError                  a reply is missing, malformed or out of turn
│   └── PartyLostError             a party does not answer
├── StorageError (ValueError)      a file or message cannot be read
├── MissingExtraError (ImportError) an optional package is not installed
└── InternalError                  a bug in this library; please report
SpinneyWarning (UserWarning)
└── PrivacyLeakWarning             a public fact was read from private data (simulation only)
```

A message says what is wrong with name and value, what would be right, and what to do. A party's
error has a public part, which may cross to the coordinator, and a local part, which never does:
no cell value, row id, exact count or path is ever in the public part.
"""

from fractions import Fraction
from typing import ClassVar


class SpinneyError(Exception):
    """The base of every error raised on purpose.

    `public` may be shown to other organisations; `local` is for the party's own log. A channel sets
    `party` if it knows which party raised the error.
    """

    exit_code: ClassVar[int] = 70

    def __init__(self, public: str, *, local: str = "") -> None:
        super().__init__(f"{public} {local}".strip())
        self.public = public
        self.local = local
        self.party = ""

    def __str__(self) -> str:
        text = super().__str__()
        return f"Party {self.party!r}: {text}" if self.party else text


class SettingError(SpinneyError, ValueError):
    """A parameter or config value cannot work."""

    exit_code = 10


class MissingExtraError(SpinneyError, ImportError):
    """An optional package is not installed."""

    exit_code = 11

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}: pip install 'spinney-trees[{extra}]'."
        )


class TableError(SpinneyError, ValueError):
    """A table cannot be read or used."""

    exit_code = 20


class SchemaError(SpinneyError, ValueError):
    """Tables do not fit the schema, or each other."""

    exit_code = 21


class StorageError(SpinneyError, ValueError):
    """A file or message cannot be read."""

    exit_code = 22


class PolicyError(SpinneyError):
    """A party refuses a job."""

    exit_code = 30


class UnauditedError(PolicyError):
    """A policy asks for an audit of a model before it leaves; the run can go on after it."""


class BudgetError(SpinneyError):
    """The ledger refuses a charge; nothing was released.

    `asked` and `left` are exact, in the budget's measure. `left` is None where it would reveal what
    other jobs have spent.
    """

    exit_code = 31

    def __init__(
        self,
        public: str,
        *,
        local: str = "",
        asked: Fraction | None = None,
        left: Fraction | None = None,
    ) -> None:
        super().__init__(public, local=local)
        self.asked = asked
        self.left = left


class LedgerError(SpinneyError):
    """The ledger cannot be read, written or trusted."""

    exit_code = 32


class ProtocolError(SpinneyError):
    """A reply is missing, malformed or out of turn."""

    exit_code = 40


class PartyLostError(ProtocolError):
    """A party does not answer; `missing` names the silent parties, if they are known."""

    exit_code = 41
    missing: tuple[str, ...] = ()


class InternalError(SpinneyError):
    """A bug in this library; please report."""

    exit_code = 70


class SpinneyWarning(UserWarning):
    """The base of every warning."""


class PrivacyLeakWarning(SpinneyWarning):
    """A public fact was read from private data; allowed in simulation only."""
