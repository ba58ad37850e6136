"""What DuckDB says of an expression, in our words: nobody who writes a view need know who computes it."""

from __future__ import annotations

import re
from typing import Final

SAID: Final = "everview: "
"""What the errors of our own macros begin with; the rest is told as it is."""
_TYPES: Final = {
    "INT8": "TINYINT",
    "INT16": "SMALLINT",
    "INT32": "INT",
    "INT64": "BIGINT",
    "INT128": "DECIMAL(38, 0)",
    "INTEGER": "INT",
    "BOOL": "BOOLEAN",
    "VARCHAR": "STRING",
    "BLOB": "BINARY",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
    "TIMESTAMP": "TIMESTAMP_NTZ",
}
_ABSENT: Final = "CatalogException", "BinderException", "NotImplementedException", "ParserException"
_FAILURES: Final = (
    (r"Overflow in \w+ of (?P<type>\w+)(\(\d+\))? \((?P<value>.*?)\)", "{value} is out of range for {type}"),
    (r"Overflow on (?P<value>.*)", "{value} is out of range"),
    (r"Integer value (?P<value>\S+) not in range", "{value} is out of range"),
    (r"^overflow$|int too big|too large to convert|does not fit in precision", "a value is out of range"),
    (r"value (?P<value>.*?) can't be cast .* destination type (?P<type>\w+)", "{value} does not fit into {type}"),
    (r"Could not cast value (?P<value>.*?) to (?P<type>DECIMAL.*?\))", "{value} does not fit into {type}"),
    (r"Casting value \"(?P<value>.*?)\" to type (?P<type>DECIMAL.*?\))", "{value} does not fit into {type}"),
    (r"Could not convert string ['\"](?P<value>.*)['\"] to (?P<type>\w+)", "'{value}' cannot be cast to {type}"),
    (r"field value out of range: \"(?P<value>.*?)\"", "'{value}' is no day or time that there is"),
    (r"invalid (?P<type>\w+) field format: \"(?P<value>.*?)\"", "'{value}' cannot be cast to {type}"),
    (r"Could not parse string \"(?P<value>.*?)\" according", "'{value}' is no date or time of that pattern"),
    (r"(Date|Timestamp|Epoch|Interval).*(out of range|overflow)", "a date or timestamp is out of range"),
    (r"Unknown TimeZone '(?P<value>.*?)'", "there is no time zone '{value}'"),
    (r"specifier \"(?P<value>.*?)\" not recognized", "there is no unit of time '{value}'"),
    (r"Invalid input for hex digit: (?P<value>.*)", "'{value}' is no hexadecimal digit"),
    (r"Could not decode string \"(?P<value>.*?)\" as base64", "'{value}' is no text in base64"),
    (r"invalid UTF-?8", "bytes are no text in UTF-8"),
    (r"Map keys must be unique", "a map would have a key twice"),
    (r"Map keys can not be NULL", "a map would have NULL for a key"),
    (r"Malformed JSON", "a text is not well-formed JSON"),
    (r"(missing|invalid|no argument|unexpected|bad|trailing).*: (?P<value>.*)", "'{value}' is no regular expression"),
    (r"[Oo]ut of [Rr]ange|outside of supported range|maximum supported", "a value is out of range"),
)
"""What DuckDB and Arrow say, and what we say."""


def is_about_the_expression(error: BaseException) -> bool:
    """True if DuckDB refuses an expression itself, whatever data there is."""
    return type(error).__name__ in _ABSENT


def reason(error: BaseException) -> str:
    """Why an expression cannot be computed at all."""
    said = _first_line(error)
    function = re.search(r"Function with name \"?(\w+)\"? does not exist", said)
    if function:
        return f"the function {function[1].removeprefix('spark_')} is not known here"
    given = re.search(r"argument types '(\w+)\((.*)\)'", said)
    if given:
        types = ", ".join(_name(t) for t in re.split(r", (?![^(]*\))", given[2]))
        return f"{given[1].removeprefix('spark_')} takes no arguments of type {types} here"
    constant = re.search(r"must be a constant", said)
    if constant:
        return "one of its arguments must be a literal"
    zone = re.search(r"Unknown TimeZone '(.*?)'", said)
    return f"there is no time zone '{zone[1]}'" if zone else "there is no way to compute it here"


def failure(error: BaseException) -> str:
    """Why an expression has no value for a row."""
    said = _first_line(error)
    if SAID in said:
        return said.partition(SAID)[2]
    for pattern, words in _FAILURES:
        found = re.search(pattern, said)
        if found:
            parts = found.groupdict(default="")
            return words.format(value=parts.get("value", ""), type=_name(parts.get("type", "")))
    return "a value cannot be computed"


def _first_line(error: BaseException) -> str:
    return re.sub(r"^[\w ]+ Error: ", "", str(error).strip().partition("\n")[0])


def _name(type_: str) -> str:
    type_ = type_.strip()
    return _TYPES.get(type_, re.sub(r",(?=\S)", ", ", type_))
