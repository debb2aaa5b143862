"""The files behind a document: each has a letter, under which every statement names it."""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from string import ascii_uppercase

from spinney.errors import StorageError
from spinney.report.page.markup import Content, Html, join_html, table, tag


@dataclass(frozen=True)
class Source:
    """A file as it was read."""

    letter: str
    path: Path
    digest: str
    n_bytes: int
    holds: str

    @property
    def mark(self) -> Html:
        """The source's letter, as a link to its line in the list of files."""
        return tag("a", f"[{self.letter}]", href=f"#source-{self.letter}", class_="source")


@dataclass
class Sources:
    """All files that a document was made from."""

    found: list[Source] = field(default_factory=list)

    def read(self, path: Path, holds: str) -> tuple[bytes, Source]:
        """Read a file once; return its bytes, and the source that statements name."""
        if len(self.found) == len(ascii_uppercase):
            raise StorageError(f"A document names at most {len(ascii_uppercase)} files.")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StorageError(
                f"Cannot read {str(path)!r}: {error.strerror or error}. Check the path."
            ) from None
        letter = ascii_uppercase[len(self.found)]
        source = Source(letter, path, sha256(data).hexdigest(), len(data), holds)
        self.found.append(source)
        return data, source

    def listed(self) -> Html:
        """Return the table of all files with their digests."""
        lines: list[list[Content]] = [
            [
                tag("span", f"[{one.letter}]", id=f"source-{one.letter}"),
                one.path.name,
                one.holds,
                f"{one.n_bytes:,}",
                tag("code", one.digest),
            ]
            for one in self.found
        ]
        caption = "Every statement above names one of these files"
        return table(caption, ["mark", "file", "holds", "bytes", "SHA-256"], lines)


def said(text: Content, *sources: Source) -> Html:
    """Return a paragraph that ends with its sources."""
    return tag("p", text, " ", join_html(*(one.mark for one in sources)))
