"""A simulated job that stopped early still gets a report of its completed rounds."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from spinney.errors import PolicyError, SpinneyError
from spinney.privacy.ledger import Ledger
from spinney.protocols.training import Unfinished
from spinney.report.report import Report
from spinney.transport.channel import Channel

_ABORTS: Final = PolicyError.exit_code
"""Errors with this exit code or a higher one end a running job; others come before it starts."""


class EndedEarlyError(Exception):
    """The joint training stopped early; its report covers the completed rounds."""

    def __init__(self, report: Report, reason: SpinneyError) -> None:
        super().__init__(str(reason))
        self.report = report
        self.reason = reason


@contextmanager
def reporting_early_end(
    protocol: str,
    channel: Channel,
    settings: Mapping[str, object],
    ledgers: Mapping[str, Ledger],
) -> Iterator[None]:
    """Raise `EndedEarlyError` if training fails after a party has answered."""
    try:
        yield
    except SpinneyError as error:
        if error.exit_code < _ABORTS or not channel.rounds:
            raise
        log = Unfinished(protocol, channel.parties, tuple(channel.rounds), settings)
        report = Report.of(log, ledgers=ledgers, ended=str(error))
        raise EndedEarlyError(report, error) from error
