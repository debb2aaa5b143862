"""Tables and pictures of stored cells, as text, JSON, Parquet and PNG. Nothing is measured here."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from harness import table
from papers.experiment import Shown, Table, shown
from papers.store import Store

PUBLISHED = Path(__file__).parents[2] / "docs" / "results"


def show(store: Store, *, fast: bool) -> tuple[dict[str, Any], Shown]:
    """Print the tables of a setting; return them with their origin, and how they are drawn."""
    wanted = store.paper.wanted(fast=fast)
    cells = store.found(wanted)
    if not cells:
        raise SystemExit(f"{store.paper.name}: nothing is stored in {store.path}; run it first.")
    made = shown(store.paper.name, cells)
    printed(made)
    name = f"{store.paper.name}_fast" if fast else store.paper.name
    found = {
        "name": name,
        "title": store.paper.title,
        "cells": {"stored": len(cells), "wanted": len(wanted)},
        "runs": store.origins(wanted),
        "hours": {
            "full": store.hours(store.paper.wanted(fast=False)),
            "fast": store.hours(store.paper.wanted(fast=True)),
        },
        "facts": made.facts,
        "tables": made.tables,
        "pictures": [f"{name}_{picture}.png" for picture in made.pictures],
    }
    return found, made


def printed(made: Shown) -> None:
    """Print the tables."""
    for one in made.tables:
        table(f"{one.title}. {one.note}" if one.note else one.title, one.rows)


def keep(found: dict[str, Any], made: Shown, folder: Path) -> None:
    """Write tables as JSON and pictures as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plain(found), indent=1, allow_nan=False)
    (folder / f"{found['name']}.json").write_text(text + "\n", encoding="utf-8")
    for picture, draw in made.pictures.items():
        draw(folder / f"{found['name']}_{picture}.png")


def plain(value: Any) -> Any:
    """Return what JSON can hold: numbers of numpy as Python's, what is not a number as null."""
    if isinstance(value, Table):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
