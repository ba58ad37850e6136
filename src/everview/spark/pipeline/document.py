"""A YAML file whose every key and value knows where it stands, so that errors can say so.

>>> entry = Document.of("views: {hops: SELECT 1}", "pipeline.yaml").root
>>> entry.mapping(known=["views"])["views"].name
'views'
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

import yaml

from everview.errors import EverviewError, PipelineError, Position
from everview.redaction import learn

_VARIABLE = re.compile(r"\$\{(\w*)\}")
_NAMED = re.compile(r"\b(alias|anchor) '[^']*'")
"""What YAML reads as such, a password may be that begins with * or &."""
_BLANK = " \t\r\n"
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_ESCAPES = {"x": 2, "u": 4, "U": 8}
_BLANK_ESCAPES = "nrtvfNL_P0abe \n"


@dataclass(frozen=True)
class Document:
    """A file's text, and its name as errors give it."""

    name: str
    text: str
    node: yaml.Node

    @staticmethod
    def of(text: str, name: str) -> Document:
        """Read a text; an error says where it is no YAML."""
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = Position(mark.line + 1, mark.column + 1) if mark else None
            told = ", ".join(_NAMED.sub(r"\1", p) for p in (error.context, error.problem) if p)
            raise PipelineError(f"{name}: this is no YAML: {told}", position=place, source=text) from None
        except yaml.YAMLError as error:
            raise PipelineError(f"{name}: this is no YAML: {error}") from None
        if node is None:
            raise PipelineError(f"{name}: the file is empty", hint="docs/pipeline.md has an example to begin with")
        return Document(name, text, node)

    @staticmethod
    def read(path: Path) -> Document:
        """Read a file."""
        return Document.of(path.read_text(encoding="utf-8"), str(path))

    @property
    def root(self) -> Entry:
        """The whole of it."""
        return Entry(self, self.node, "", None)

    def position(self, index: int, length: int = 1) -> Position:
        """The place of a character."""
        before = self.text[:index]
        return Position(before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1, max(1, length))


@dataclass(frozen=True)
class Entry:
    """A value in a document; ``name`` is the keys that lead to it, ``key`` the node of the last of them."""

    document: Document
    node: yaml.Node
    name: str
    key: yaml.Node | None

    # --- errors ------------------------------------------------------------------------------------------------------

    def refuse(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise an error at the value."""
        raise self.error(message, hint)

    def error(self, message: str, hint: str | None = None, *, at_key: bool = False) -> PipelineError:
        """An error at the value, or at its key."""
        node = self.key if at_key and self.key is not None else self.node
        first = self.document.text[node.start_mark.index : node.end_mark.index].split("\n")[0]
        place = self.document.position(node.start_mark.index, len(first.rstrip()))
        return PipelineError(self._told(message), position=place, source=self.document.text, hint=hint)

    def within(self, error: EverviewError, before: str = "") -> PipelineError:
        """An error about the text that this value is, in which ``before`` was put before it, as one about the file."""
        if error.position is None:
            return self.error(error.message, error.hint)
        rows = (before + self.raw()).splitlines(keepends=True)
        offset = sum(map(len, rows[: error.position.line - 1])) + error.position.column - 1 - len(before)
        index = self._index(offset)
        length = error.position.length
        place = self.document.position(index, length)
        return PipelineError(self._told(error.message), position=place, source=self.document.text, hint=error.hint)

    def _told(self, message: str) -> str:
        return f"{self.document.name}: {self.name}: {message}" if self.name else f"{self.document.name}: {message}"

    def _index(self, offset: int) -> int:
        """Where in the file a character of the value stands: blanks and quotes apart, both have the same ones."""
        value = self.raw()
        ink = sum(c not in _BLANK for c in value[: max(0, offset)])
        places = self._ink()
        if not places:
            return int(self.node.start_mark.index)
        return places[ink] if ink < len(places) else places[-1] + 1

    def _ink(self) -> list[int]:
        """The places of the value's characters that are no blanks."""
        text, at, end = self.document.text, self.node.start_mark.index, self.node.end_mark.index
        style = self.node.style if isinstance(self.node, yaml.ScalarNode) else None
        if style in ("|", ">"):
            at = text.find("\n", at, end) + 1
        elif style in ("'", '"'):
            at, end = at + 1, end - 1
        places: list[int] = []
        while at < end:
            here, size = text[at], 1
            if style == "'" and here == "'":
                size = 2
            elif style == '"' and here == "\\":
                size = 2 + _ESCAPES.get(text[at + 1], 0)
                here = " " if text[at + 1] in _BLANK_ESCAPES else text[at + 1]
            if here not in _BLANK:
                places.append(at)
            at += size
        return places

    # --- values ------------------------------------------------------------------------------------------------------

    def raw(self) -> str:
        """The value as it is written, without quotes."""
        if not isinstance(self.node, yaml.ScalarNode) or self.node.tag == "tag:yaml.org,2002:null":
            self.refuse(f"a text is wanted here, and this is {self._kind()}")
        return str(self.node.value)

    def text(self) -> str:
        """The value with ``${NAME}`` replaced by what the environment has, which is not shown from then on."""
        found = self.expanded()
        self._learn(found)
        return found

    def _learn(self, found: str) -> None:
        for name in _VARIABLE.findall(self.raw()):
            learn(os.environ.get(name, ""), f"${{{name}}}")
        if found != self.raw():
            learn(found, self.raw())

    def expanded(self) -> str:
        """The same, for values that say nothing that anybody could want to hide: numbers and words of ours."""

        def replaced(match: re.Match[str]) -> str:
            found = os.environ.get(match[1])
            if found is None:
                self.refuse(
                    f"the environment has no variable {match[1]}", hint=f"set it: export {match[1]}=… before the run"
                )
            return found

        return _VARIABLE.sub(replaced, self.raw())

    def choice(self, among: Sequence[str]) -> str:
        """One of several words."""
        found = self.expanded()
        if found not in among:
            self._learn(found)
            self.refuse(f"{found!r} is none of {', '.join(among)}", hint=did_you_mean(found, among))
        return found

    def boolean(self) -> bool:
        """True or false."""
        found = _BOOLEANS.get(self.raw().lower())
        if found is None:
            self.refuse(f"true or false is wanted here, and this is {self.raw()!r}")
        return found

    def integer(self, least: int) -> int:
        """A whole number."""
        try:
            found = int(self.expanded())
        except ValueError:
            self.refuse(f"a whole number is wanted here, and this is {self.text()!r}")
        if found < least:
            self.refuse(f"{found} is too small: {least} is the least")
        return found

    def number(self) -> float:
        """A number above zero."""
        try:
            found = float(self.expanded())
        except ValueError:
            self.refuse(f"a number is wanted here, and this is {self.text()!r}")
        if not 0 < found < float("inf"):
            self.refuse(f"{found} is no number above zero")
        return found

    def texts(self) -> list[Entry]:
        """The texts of a list; one text alone is a list of it."""
        return self.entries() if isinstance(self.node, yaml.SequenceNode) else [self]

    def entries(self) -> list[Entry]:
        """The values of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            self.refuse(f"a list is wanted here, and this is {self._kind()}")
        return [Entry(self.document, n, f"{self.name}[{i}]", None) for i, n in enumerate(self.node.value)]

    @property
    def is_mapping(self) -> bool:
        """True for keys with values."""
        return isinstance(self.node, yaml.MappingNode)

    def mapping(self, known: Iterable[str] | None = None, required: Iterable[str] = ()) -> dict[str, Entry]:
        """Keys with values: any keys, or only known ones, of which some must be there."""
        if not isinstance(self.node, yaml.MappingNode):
            self.refuse(f"keys with values are wanted here, and this is {self._kind()}")
        among = None if known is None else list(known)
        found: dict[str, Entry] = {}
        for key, value in self.node.value:
            where = Entry(self.document, key, self.name, None)
            name = where.raw()
            if name in found:
                where.refuse(f"the key {name} is there twice", hint="remove one of the two")
            if among is not None and name not in among:
                hints = [h for h in (did_you_mean(name, among), f"the keys are {', '.join(among)}") if h]
                where.refuse(f"there is no key {name}", hint=" ".join(hints))
            found[name] = Entry(self.document, value, f"{self.name}.{name}" if self.name else name, key)
        for name in required:
            if name not in found:
                missing = self.error(f"the key {name} is missing", at_key=True)
                raise missing
        return found

    def _kind(self) -> str:
        if isinstance(self.node, yaml.MappingNode):
            return "keys with values"
        if isinstance(self.node, yaml.SequenceNode):
            return "a list"
        return "nothing" if self.node.tag == "tag:yaml.org,2002:null" else f"{self.node.value!r}"


def did_you_mean(name: str, among: Iterable[str] | Mapping[str, object]) -> str | None:
    """A hint that names what is spelt nearly the same."""
    by_lower = {n.lower(): n for n in among}
    close = [by_lower[n] for n in get_close_matches(name.lower(), by_lower, n=2, cutoff=0.6)]
    return f"did you mean {' or '.join(close)}?" if close else None
