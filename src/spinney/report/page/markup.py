"""HTML that cannot be broken into: every text is escaped unless it is `Html` already.

Column names, categories and party names come from other organisations; none of them is ever read
as markup.
"""

from html import escape


class Html(str):
    """Text that is markup, and stands in a page as it is."""

    __slots__ = ()


Content = str | Html | int | float | None


def tag(name: str, /, *content: Content, **attributes: str | float | bool | None) -> Html:
    """Return an element; a trailing `_` of an attribute's name is dropped, other `_` become `-`."""
    return Html(f"<{name}{_attributes(attributes)}>{join_html(*content)}</{name}>")


def void(name: str, /, **attributes: str | float | bool | None) -> Html:
    """Return an element that has no content."""
    return Html(f"<{name}{_attributes(attributes)}>")


def join_html(*content: Content) -> Html:
    """Return contents one after another, escaped where they are plain text."""
    return Html("".join(_safe(part) for part in content if part is not None))


def table(caption: str, headings: list[str], rows: list[list[Content]], **attributes: str) -> Html:
    """Return a table whose first column names its rows; a phone shows a row as a list."""
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
    """Return attributes; None and False leave one out, True gives it no value."""
    parts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.removesuffix("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{escape(str(value))}"')
    return "".join(parts)
