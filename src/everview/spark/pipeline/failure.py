"""Why a query failed, in Everview's own words: they are somewhere within the 200 lines that Spark makes of them."""

from __future__ import annotations

import re

from everview.redaction import redact

_OURS = re.compile(r"(?m)^(?:[\w.]*: )?(everview\.errors\.\w+): (.*)$")
_END = re.compile(r"^(\s+at [\w.$]+[(/]|\s*$|Traceback |Caused by: |\t\.\.\. \d+ more|Driver stacktrace)")
_PYTHON = re.compile(r"(?m)^(?!py4j\.|pyspark\.|org\.|java\.)(?:\w+\.)*(\w+(?:Error|Exception|Interrupt)(?:: .*)?)$")
_CAUSE = re.compile(r"(?m)^Caused by: (.*)$")
_WRAPPERS = re.compile(r"(?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error)): ")
_MORE_LINES = 20


def cause_of(error: BaseException | str) -> str:
    """What went wrong: the error that Everview raised, wherever it ran; else Python's, or Spark's innermost."""
    return redact(_cause(error))


def _cause(error: BaseException | str) -> str:
    text = str(error)
    ours = list(_OURS.finditer(text))
    if ours:
        last = ours[-1]
        lines = [f"{last[1].rpartition('.')[2]}: {last[2]}"]
        for line in text[last.end() + 1 :].split("\n")[:_MORE_LINES]:
            if _END.match(line):
                break
            lines.append(line)
        return "\n".join(lines).rstrip()
    if "Traceback (most recent call last)" in text and (others := _PYTHON.findall(text)):
        return str(others[-1]).strip()
    causes = _CAUSE.findall(text)
    first = text.strip().split("\n")[0] if text.strip() else type(error).__name__
    innermost = causes[-1].strip() if causes else first
    return _WRAPPERS.sub(lambda m: f"{m[1]}: ", innermost)
