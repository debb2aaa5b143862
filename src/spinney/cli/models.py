"""`spinney model show`: describe a saved model or print a tree; find the page of a run."""

from pathlib import Path

import msgspec
import numpy as np

from spinney.errors import SettingError, StorageError
from spinney.protocols.columns.model import PART, PartialModel
from spinney.protocols.model import ForestModel
from spinney.report.file_names import MODEL, PAGE, REPORT, file_in
from spinney.report.render import size
from spinney.report.report import load_report
from spinney.report.tree_text import tree_text
from spinney.report.words import some
from spinney.tables.schema import Schema
from spinney.trees.partial import ELSEWHERE


class ModelDescription(msgspec.Struct, frozen=True):
    """A few facts about a saved model."""

    path: str
    protocol: str
    n_trees: int
    depth: int
    n_nodes: int
    n_bytes: int
    schema: Schema
    importances: dict[str, float]
    consent: tuple[str, ...] = ()  # for a forest joined from parts: who consented

    def __str__(self) -> str:
        label = self.schema.label
        outputs = f", one of {', '.join(map(str, label.classes))}" if label.classes else ""
        width = max(map(len, self.importances))
        trees = some(self.n_trees, "tree", "trees")
        told = f"{some(self.n_nodes, 'node', 'nodes')}, {size(self.n_bytes)}"
        lines = [
            f"{self.path}: {self.protocol}, {trees}, depth {self.depth}, {told}",
            f"predicts {label.name!r}, a {label.kind}{outputs}",
            f"from {some(len(self.schema.columns), 'column', 'columns')}, by importance:",
        ]
        if self.consent:
            lines.insert(1, f"joined from its parts with the consent of {', '.join(self.consent)}")
        ranked = sorted(self.importances.items(), key=lambda found: -found[1])
        lines += [f"  {name:<{width}}  {share:.3f}" for name, share in ranked]
        return "\n".join(lines)


class PartDescription(msgspec.Struct, frozen=True):
    """A party's part of a forest over columns."""

    path: str
    party: str
    n_trees: int
    splits: dict[str, int]  # by its own columns
    n_elsewhere: int  # splits by columns of the other parties
    has_leaves: bool

    def __str__(self) -> str:
        width = max(map(len, self.splits), default=0)
        own = some(sum(self.splits.values()), "split", "splits")
        own += ", and all leaves" if self.has_leaves else ""
        others = "belongs" if self.n_elsewhere == 1 else "belong"
        trees = some(self.n_trees, "tree", "trees")
        lines = [
            f"{self.path}: {self.party}'s part of a forest of {trees}",
            f"has {own}; {some(self.n_elsewhere, 'split', 'splits')} {others} to others",
        ]
        ranked = sorted(self.splits.items(), key=lambda found: -found[1])
        return "\n".join(lines + [f"  {name:<{width}}  {n}" for name, n in ranked])


def describe_model(path: Path) -> ModelDescription | PartDescription:
    """Describe a saved model, the model in a run's folder, or a party's part of a forest."""
    file = file_in(path, MODEL)
    part = file_in(path, PART)
    if part.name == PART and part.is_file() and not (path / MODEL).is_file():
        return _part_described(part)
    model = ForestModel.load(file)
    forest, schema = model.forest, model.schema
    shares = np.round(model.importances(), 6).tolist()
    return ModelDescription(
        str(file),
        model.protocol,
        forest.n_trees,
        int(forest.depths.max()),
        forest.n_nodes,
        file.stat().st_size,
        schema,
        dict(zip(schema.names, shares, strict=True)),
        model.consent,
    )


def _part_described(file: Path) -> PartDescription:
    model = PartialModel.load(file)
    feature = model.part.feature
    return PartDescription(
        str(file),
        model.party,
        model.part.n_trees,
        {
            column.name: int((feature == number).sum())
            for number, column in enumerate(model.columns)
        },
        int((feature == ELSEWHERE).sum()),
        model.label is not None,
    )


def tree_as_text(path: Path, number: int) -> str:
    """Return one tree of a saved model as text; the first tree is 1."""
    model = ForestModel.load(file_in(path, MODEL))
    n_trees = model.forest.n_trees
    if not 1 <= number <= n_trees:
        raise SettingError(f"The model has trees 1 to {n_trees}; got {number}.")
    report = path / REPORT
    subject = load_report(report).subject if report.is_file() else None
    return tree_text(model, number - 1, subject.dates if subject else ()).rstrip()


def page_in(path: Path) -> Path:
    """Return the path of a run's page."""
    page = file_in(path, PAGE)
    if not page.is_file():
        raise StorageError(
            f"There is no page {str(page)!r}. Give the folder of a run; it contains {PAGE}."
        )
    return page
