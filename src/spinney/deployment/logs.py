"""Logs as JSON lines: time, level, where, what, and the job; no data."""

import json
import logging
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    job = ""  # of the process, once it has one

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "job": JsonLines.job,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry)
