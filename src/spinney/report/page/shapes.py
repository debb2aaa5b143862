"""The curves of a model that is a sum of one curve for each column, and the noise in them."""

import numpy as np

from spinney.protocols.model import ForestModel
from spinney.report.page.curves import curve, marks
from spinney.report.page.markup import Html, join_html, tag
from spinney.report.shapes import Shape, shapes_of

_SHOWN = 24


def curves_of(model: ForestModel | None) -> Html:
    """Return the curves; nothing for other models."""
    shapes = () if model is None else shapes_of(model)
    if model is None or not shapes:
        return join_html()
    label = model.schema.label
    what = label.name
    if label.classes is not None:
        what = f"{'log odds' if len(label.classes) == 2 else 'score'} of {label.classes[-1]}"
    words = (
        f"The model is a sum of one curve for each column: what the column's value adds to the "
        f"{what}. The band, or the marks around a category, shows how far noise alone moves it 95 "
        "times in 100. A curve that stays within its band may be noise."
    )
    if len(shapes) > _SHOWN:
        words += f" Shown are the {_SHOWN} columns of {len(shapes)} that add most."
    charts = (_chart(shape) for shape in shapes[:_SHOWN])
    return join_html(
        tag("h3", "What each column adds"), tag("p", words), tag("div", *charts, class_="small")
    )


def _chart(shape: Shape) -> Html:
    value, reach = shape.value[-1], shape.reach[-1]
    numbers = [place for place in shape.at if not isinstance(place, str)]
    if len(numbers) == len(shape.at):
        return curve(shape.column, numbers, [("adds", value.tolist())], reach=reach.tolist())
    sides = (("adds", value), ("at least", value - reach), ("at most", value + reach))
    series = [(name, np.asarray(line).tolist()) for name, line in sides]
    return marks(shape.column, [str(place) for place in shape.at], series)
