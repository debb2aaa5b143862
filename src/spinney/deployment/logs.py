"""Logs as JSON lines: time, level, logger, message and job; no data."""

import json
import logging
from datetime import UTC, datetime

_LONGEST = 4000  # characters of a message: a peer may have a say in it


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    job = ""  # of the process, once it has one

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "job": JsonLines.job,
            "message": record.getMessage()[:_LONGEST],
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry)
