"""One tree as people read it: text with one line a node, and a picture (SVG)."""

import os
from dataclasses import dataclass
from functools import cached_property
from html import escape

import numpy as np

from spinney.protocols.model import ForestModel
from spinney.trees.storage import write_whole

_BOX_WIDTH, _BOX_HEIGHT = 150, 44
_GAP_X, _GAP_Y = 16, 46
_MARGIN = 12
_NAMED = 4  # categories that a picture spells out


@dataclass(frozen=True)
class TreeView:
    """A model of one tree, to be read.

    Attributes
    ----------
    model
        The tree, and the schema that names its columns.
    is_home
        Whether it is the tree its party would have had alone; None: not known.
    score, home_score
        On the party's own validation rows, of this tree and of the one it grows alone.
    edit_distance
        To the structure of the party's own tree: 0 equal, 1 nothing in common.
    """

    model: ForestModel
    is_home: bool | None = None
    score: float | None = None
    home_score: float | None = None
    edit_distance: float | None = None

    @property
    def n_decisions(self) -> int:
        """How many nodes ask a question."""
        return int((self.model.forest.feature >= 0).sum())

    @property
    def n_leaves(self) -> int:
        """How many leaves there are."""
        return self.model.forest.n_nodes - self.n_decisions

    @property
    def depth(self) -> int:
        """How many questions the longest way asks."""
        return int(self.model.forest.depths[0])

    def text(self) -> str:
        """Return the tree with one line for each way to go and each leaf."""
        lines: list[str] = []

        def write(node: int, indent: str) -> None:
            forest = self.model.forest
            if forest.feature[node] < 0:
                lines.append(f"{indent}-> {self._leaf(node)}")
                return
            left = int(forest.left[node])
            for child, question in ((left, self._goes_left(node)), (left + 1, "else")):
                if forest.feature[child] < 0:
                    lines.append(f"{indent}{question} -> {self._leaf(child)}")
                else:
                    lines.append(f"{indent}{question}")
                    write(child, indent + "    ")

        write(0, "")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()

    def svg(self) -> str:
        """Return the tree as a picture: yes to the left, no to the right."""
        place = self._places
        width = max(x for x, _ in place.values()) + _BOX_WIDTH + _MARGIN
        height = max(y for _, y in place.values()) + _BOX_HEIGHT + _MARGIN
        forest = self.model.forest
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        font = 'font-family="sans-serif" font-size="12"'
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>']
        for node, (x, y) in place.items():
            if forest.feature[node] < 0:
                continue
            left = int(forest.left[node])
            for child, word in ((left, "yes"), (left + 1, "no")):
                to_x, to_y = place[child]
                parts.append(_line(x, y, to_x, to_y, word))
        parts += [self._box(node, x, y) for node, (x, y) in place.items()]
        return "\n".join([*parts, "</svg>"])

    def save_picture(self, path: str | os.PathLike[str]) -> None:
        """Write the picture as an SVG file."""
        write_whole(path, self.svg().encode())

    def _repr_svg_(self) -> str:
        return self.svg()

    def _box(self, node: int, x: float, y: float) -> str:
        is_leaf = self.model.forest.feature[node] < 0
        first = self._leaf(node) if is_leaf else self._goes_left(node, short=True)
        fill, corner = ("#e5f0e0", 12) if is_leaf else ("#ffffff", 3)
        middle = x + _BOX_WIDTH / 2
        return (
            f"<g><title>{escape(first)}</title>"
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" '
            f'rx="{corner}" fill="{fill}" stroke="#4a6741"/>'
            f'<text x="{middle:.0f}" y="{y + 18:.0f}" text-anchor="middle">'
            f"{escape(_cut(first))}</text>"
            f'<text x="{middle:.0f}" y="{y + 35:.0f}" text-anchor="middle" fill="#666">'
            f"{self._n_rows(node)} rows</text></g>"
        )

    @cached_property
    def _places(self) -> dict[int, tuple[float, float]]:
        """Where each node's box stands: leaves side by side, parents above their children."""
        forest = self.model.forest
        found: dict[int, tuple[float, float]] = {}
        n_placed = 0

        def put(node: int, level: int) -> float:
            nonlocal n_placed
            y = _MARGIN + level * (_BOX_HEIGHT + _GAP_Y)
            if forest.feature[node] < 0:
                x = float(_MARGIN + n_placed * (_BOX_WIDTH + _GAP_X))
                n_placed += 1
            else:
                left = int(forest.left[node])
                x = (put(left, level + 1) + put(left + 1, level + 1)) / 2
            found[node] = (x, float(y))
            return x

        put(0, 0)
        return found

    def _n_rows(self, node: int) -> int:
        moments = self.model.forest.moments[node]
        is_number = self.model.schema.label.classes is None
        return int(moments[0] if is_number else moments.sum())

    def _leaf(self, node: int) -> str:
        label = self.model.schema.label
        value = self.model.forest.value[node]
        if label.classes is None:
            return f"{label.name} = {value[0]:.4g}"
        best = int(np.argmax(value))
        return f"{label.name} = {label.classes[best]} ({value[best]:.0%})"

    def _goes_left(self, node: int, *, short: bool = False) -> str:
        """Say which rows go left."""
        forest = self.model.forest
        column = self.model.schema.columns[int(forest.feature[node])]
        if forest.subset[node] >= 0:
            return self._in_set(node, short=short)
        missing = " or missing" if forest.missing_left[node] and not short else ""
        if np.isinf(forest.threshold[node]):
            return f"{column.name} is known"
        if column.kind == "boolean":
            return f"{column.name} is false{missing}"
        return f"{column.name} <= {float(forest.threshold[node]):.6g}{missing}"

    def _in_set(self, node: int, *, short: bool) -> str:
        forest = self.model.forest
        number = int(forest.feature[node])
        column = self.model.schema.columns[number]
        words = forest.bin_sets[forest.subset[node]]
        bins = self.model.bin_of_category[number].astype(np.uint64)
        left = (words[(bins >> np.uint64(6)).astype(np.intp)] >> (bins & np.uint64(63))) & 1
        names = [str(c) for c, goes in zip(column.categories or (), left, strict=True) if goes]
        if (words[3] >> np.uint64(63)) & np.uint64(1) and not short:
            names.append("(missing)")
        if short and len(names) > _NAMED:
            names = [*names[: _NAMED - 1], f"{len(names) - _NAMED + 1} more"]
        return f"{column.name} is {' or '.join(names) if names else 'missing'}"


def _line(x: float, y: float, to_x: float, to_y: float, word: str) -> str:
    start_x, start_y = x + _BOX_WIDTH / 2, y + _BOX_HEIGHT
    end_x = to_x + _BOX_WIDTH / 2
    middle_x, middle_y = (start_x + end_x) / 2, (start_y + to_y) / 2
    return (
        f'<line x1="{start_x:.0f}" y1="{start_y:.0f}" x2="{end_x:.0f}" y2="{to_y:.0f}" '
        f'stroke="#999"/><text x="{middle_x:.0f}" y="{middle_y:.0f}" fill="#666" '
        f'font-size="10" text-anchor="middle">{word}</text>'
    )


def _cut(text: str, most: int = 22) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
