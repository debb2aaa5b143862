"""One party's tree and its facts, for reading."""

import os
from dataclasses import dataclass

from spinney.files import write_whole
from spinney.protocols.model import ForestModel
from spinney.report.tree_picture import tree_svg
from spinney.report.tree_text import tree_text


@dataclass(frozen=True)
class TreeView:
    """A model with one tree, for reading.

    Attributes
    ----------
    model
        The tree, and the schema that names its columns.
    is_home
        Whether it is the tree that the party would have grown alone; None: unknown.
    score, home_score
        Scores of this tree, and of the tree the party grows alone, on its own validation rows.
    edit_distance
        Distance to the structure of the party's own tree: 0 equal, 1 nothing in common.
    """

    model: ForestModel
    is_home: bool | None = None
    score: float | None = None
    home_score: float | None = None
    edit_distance: float | None = None

    @property
    def n_decisions(self) -> int:
        """Number of split nodes."""
        return int((self.model.forest.feature >= 0).sum())

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return self.model.forest.n_nodes - self.n_decisions

    @property
    def depth(self) -> int:
        """Number of splits on the longest path."""
        return int(self.model.forest.depths[0])

    def text(self) -> str:
        """Return the tree as text, one line per branch."""
        return tree_text(self.model).rstrip()

    def __str__(self) -> str:
        return self.text()

    def svg(self) -> str:
        """Return the tree as a picture: yes to the left, no to the right."""
        return tree_svg(self.model)

    def save_picture(self, path: str | os.PathLike[str]) -> None:
        """Write the picture as an SVG file."""
        write_whole(path, self.svg().encode())

    def _repr_svg_(self) -> str:
        return self.svg()
