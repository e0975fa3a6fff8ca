"""A strict parser of a page: faults that a browser would forgive are errors here."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["Page"]

_VOID = frozenset({"meta", "br", "hr", "img", "link", "input", "col"})
_ADDRESSES = ("src", "href", "srcset", "action", "data", "poster", "xlink:href")


class Page(HTMLParser):
    """A parsed page: tags, text, identifiers, addresses.

    problems: unmatched tags, duplicate or missing identifiers.
    addresses: everything in it that a browser would fetch.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""
        self.problems: list[str] = []
        self.addresses: list[str] = []
        self._open: list[str] = []
        self._ids: set[str] = set()
        self._wanted: set[str] = set()
        self.feed(html)
        self.close()
        self.problems += [f"<{tag}> is not closed" for tag in self._open]
        self.problems += [f"no element is #{one}" for one in self._wanted - self._ids]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "br":
            self.text += "\n"
        if tag not in _VOID:
            self._open.append(tag)
        for name, value in attrs:
            self._take(tag, name, value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self._take(tag, name, value or "")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["style"]:
            self._look_for_addresses(data)
        else:
            self.text += data

    def _take(self, tag: str, name: str, value: str) -> None:
        if name == "id":
            if value in self._ids:
                self.problems.append(f"two elements are #{value}")
            self._ids.add(value)
        elif name.startswith("on"):
            self.problems.append(f"<{tag}> runs a script")
        elif name in _ADDRESSES:
            self._address(value)
        elif name in ("style", "clip-path", "fill", "stroke", "marker-end", "mask"):
            self._look_for_addresses(value)

    def _look_for_addresses(self, style: str) -> None:
        if "@import" in style:
            self.addresses.append(style)
        for part in style.split("url(")[1:]:
            self._address(part.partition(")")[0].strip("'\""))

    def _address(self, value: str) -> None:
        if value.startswith("#"):
            self._wanted.add(value[1:])
        else:
            self.addresses.append(value)
