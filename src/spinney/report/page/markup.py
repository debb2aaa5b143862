"""HTML without injection: every text is escaped unless it is already `Html`.

Column names, categories and party names come from other organisations. A browser never reads them
as markup.
"""

from html import escape


class Html(str):
    """Text that is already markup; it goes into the page unchanged."""

    __slots__ = ()


Content = str | Html | int | float | None


def tag(name: str, /, *content: Content, **attributes: str | float | bool | None) -> Html:
    """Return an element; attribute names lose a trailing `_`, and other `_` become `-`."""
    return Html(f"<{name}{_attributes(attributes)}>{join_html(*content)}</{name}>")


def void(name: str, /, **attributes: str | float | bool | None) -> Html:
    """Return an element that has no content."""
    return Html(f"<{name}{_attributes(attributes)}>")


def join_html(*content: Content) -> Html:
    """Join contents, and escape those that are plain text."""
    return Html("".join(_safe(part) for part in content if part is not None))


def table(caption: str, headings: list[str], rows: list[list[Content]], **attributes: str) -> Html:
    """Return a table whose first column names the rows; a phone shows each row as a list."""
    head = tag("tr", *(tag("th", heading, scope="col") for heading in headings))
    body = (
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(
                tag("td", cell, data_label=heading)
                for heading, cell in zip(headings[1:], row[1:], strict=True)
            ),
        )
        for row in rows
    )
    inner = tag(
        "table",
        tag("caption", caption),
        tag("thead", head),
        tag("tbody", *body),
        **attributes,
    )
    return tag("div", inner, class_="wide", tabindex=0, role="region", aria_label=caption)


def _safe(part: str | float) -> str:
    return part if isinstance(part, Html) else escape(str(part))


def _attributes(attributes: dict[str, str | float | bool | None]) -> str:
    """Return the attributes; None and False omit one, True writes it without a value."""
    parts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.removesuffix("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{escape(str(value))}"')
    return "".join(parts)
