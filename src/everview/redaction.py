"""One place that keeps secrets out of whatever is printed, logged or raised.

Two things are secret. What came from the environment by ``${NAME}`` is shown as ``${NAME}``, wherever it turns up and
however it is written: as it is, percent-encoded, or escaped as in JSON. Of URLs, connection strings and options, the
password and whatever may be one is shown as ``…``: such values are learnt where they come in (``learn_url``,
``learn_option``), so that they are known in the words of other programs too, and looked for in every text by form.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN: Final = "…"
_LEAST: Final = 3
"""Shorter values are hidden by their form only: they stand in every other text by chance."""
_ANYWHERE: Final = 6
"""Shorter values are hidden where they are words of their own."""
_KEY: Final = (
    r"(?:[\w.-]*(?:password|passwd|passphrase|pwd|secret|token|credential|(?:api|access|account|private|shared)[-_.]?key)"
    r"[\w.-]*|(?:[\w.-]*[-_.])?(?:pass|passfile|sig|signature|sas|auth|jaas)(?:[-_.][\w.-]*)?)"
)
_SECRET_KEY: Final = re.compile(rf"(?i){_KEY}")
_PLAIN_KEYS: Final = frozenset(
    "table schema sslmode connect_timeout application_name dbname host hostaddr port target_session_attrs history keep "
    "bucket_rows channel_binding keepalives client_encoding gssencmode".split()
)
"""Parameters of a URL that may be shown; of web addresses all others may be, too, unless they are called secret."""
_URL: Final = re.compile(r"[A-Za-z][\w+.-]*:/[^\s'\"`<>]*")
_USERINFO: Final = re.compile(r"//([^\s:/@?#'\"`]*):(?!\$\{\w+\}@)(?:(?!\?[\w.-]+=)[^\s'\"`])*@")
_TOKEN: Final = re.compile(r"//[^\s:/@?#'\"`]+@")
_PARAMETER: Final = re.compile(r"([?&;])([\w.%-]+)=([^&;\s'\"`]*)")
_PAIR: Final = re.compile(rf"(?i)(?<![\w.-])({_KEY}[\"']?(?:=|:\s?(?=[\"'])))(\"[^\"]*\"|'[^']*'|[^\s,;&}}'\"]+)")
_YAML_LINE: Final = re.compile(rf"(?i)^(\s*(?:-\s+)*[\"']?{_KEY}[\"']?\s*:\s+)(?!\$\{{\w+\}}\s*$)(\S.*)$")
_YAML_ITEM: Final = re.compile(rf"(?i)([{{,\s][\"']?{_KEY}[\"']?\s*:\s+)(?![\"'…]|\$\{{\w+\}})([^\s,}}][^,}}]*)")
_WEB: Final = ("http:", "https:", "ftp:")

_known: dict[str, str] = {}
_compiled: dict[int, re.Pattern[str]] = {}


def learn(value: str, shown: str = HIDDEN) -> None:
    """From now on, show a value as another text, in whatever form it is written."""
    for form in _forms(value):
        if len(form) >= _LEAST:
            _known.setdefault(form, shown)
    _compiled.clear()


def learn_url(text: str) -> None:
    """Learn the password, and the parameters that may be secret, of a URL, well-formed or not."""
    scheme, there, rest = text.partition("://")
    before, question, query = rest.partition("?")
    if there:
        at = before.rfind("@")
        if at < 0 and ":" in before and "/" not in before:
            at = rest.rfind("@")  # a question mark in the password
        user, colon, password = rest[: max(at, 0)].partition(":")
        if colon:
            learn(password)
        elif user and f"{scheme.lower()}:" in _WEB:
            learn(user)
    for parameter in re.split("[&;]", query if question else ""):
        name, _, value = parameter.partition("=")
        if not _is_plain(name, scheme):
            learn(value)


def learn_option(name: str, value: str) -> None:
    """Learn an option's value if its name says that it is secret, and what is secret in it otherwise."""
    if _SECRET_KEY.fullmatch(name):
        learn(value)
    learn_url(value)
    for match in _PAIR.finditer(value):
        learn(match[2].strip("\"'"))


def forget() -> None:
    """Forget every value that was learnt."""
    _known.clear()
    _compiled.clear()


def redact(text: str) -> str:
    """A text without the secrets in it."""
    if _known:
        text = _pattern().sub(lambda match: _known.get(match[0], HIDDEN), text)
    if ":/" in text:
        text = _URL.sub(lambda match: _url(match[0]), text)
    return _PAIR.sub(_pair, text) if "=" in text or ":" in text else text


def redact_line(text: str) -> str:
    """A line of a file that may be YAML, without secrets: its keys say what is one, also where nothing was learnt yet.

    In other texts a colon behind such a word says nothing: what follows may be an explanation.
    """
    text = redact(text)
    whole = _YAML_LINE.sub(rf"\1{HIDDEN}", text)
    return whole if whole != text else _YAML_ITEM.sub(rf"\1{HIDDEN}", text)


def redacted(data: Any) -> Any:
    """Plain data without the secrets in its texts."""
    if isinstance(data, str):
        return redact(data)
    if isinstance(data, Mapping):
        return {redacted(k): redacted(v) for k, v in data.items()}
    return list(map(redacted, data)) if isinstance(data, list | tuple) else data


class RedactedError(Exception):
    """Stands for an error of another program whose text had a secret in it."""


def scrubbed(error: BaseException) -> BaseException:
    """An error whose own text, notes and causes have no secrets in them; the same one if it can be mended."""
    return _scrubbed(error, set())


def redact_file(path: Path) -> None:
    """Rewrite a text file, such as the log of another program, without the secrets in it."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        clean = "".join(redact(line) for line in text.splitlines(keepends=True))
        if clean != text:
            path.write_text(clean, encoding="utf-8")
    except OSError:
        path.unlink(missing_ok=True)


class _Filter(logging.Filter):
    """Redacts what is logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record's message; it is always logged."""
        record.msg, record.args = redact(record.getMessage()), ()
        if record.exc_info and record.exc_info[1] is not None:
            found = scrubbed(record.exc_info[1])
            record.exc_info = (type(found), found, record.exc_info[2])
        return True


logging.getLogger("everview.spark").addFilter(_Filter())


def _forms(value: str) -> set[str]:
    """How a value may be written."""
    found: set[str] = set()
    for plain in (value, unquote(value), unquote_plus(value)):
        encoded = {quote(plain, safe=""), quote(plain), quote_plus(plain)}
        found |= {plain, *encoded, *(re.sub("%[0-9A-F]{2}", lambda m: m[0].lower(), e) for e in encoded)}
        found |= {repr(plain)[1:-1], json.dumps(plain)[1:-1], json.dumps(plain, ensure_ascii=False)[1:-1]}
        found |= {plain.replace("'", "''"), plain.replace("\\", "\\\\").replace("'", "\\'")}
    return found


def _pattern() -> re.Pattern[str]:
    found = _compiled.get(len(_known))  # of so many: another thread may learn more meanwhile
    if found is None:
        forms = sorted(_known, key=len, reverse=True)
        ways = [re.escape(f) if len(f) >= _ANYWHERE else rf"(?<!\w){re.escape(f)}(?!\w)" for f in forms]
        found = re.compile("|".join(ways) or "(?!)")
        _compiled[len(forms)] = found
    return found


def _is_plain(name: str, scheme: str) -> bool:
    is_web = f"{scheme.lower()}:" in _WEB
    return not _SECRET_KEY.fullmatch(name) if is_web else unquote(name).lower() in _PLAIN_KEYS


def _url(text: str) -> str:
    scheme = text.partition(":")[0]
    text = _USERINFO.sub(rf"//\1:{HIDDEN}@", text)
    if f"{scheme.lower()}:" in _WEB:
        text = _TOKEN.sub(f"//{HIDDEN}@", text)
    return _PARAMETER.sub(
        lambda m: m[0] if _is_plain(m[2], scheme) or m[3].startswith("${") else f"{m[1]}{m[2]}={HIDDEN}", text
    )


def _pair(match: re.Match[str]) -> str:
    value = match[2]
    if value.startswith(("${", HIDDEN)):
        return match[0]
    return f"{match[1]}{value[0]}{HIDDEN}{value[0]}" if value[0] in "\"'" else match[1] + HIDDEN


def _scrubbed(error: BaseException, seen: set[int]) -> BaseException:
    if id(error) in seen:
        return error
    seen.add(id(error))
    found = _cleaned(error)
    for link in ("__cause__", "__context__"):
        other = getattr(error, link, None)
        if other is not None:
            suppressed = error.__suppress_context__
            setattr(found, link, _scrubbed(other, seen))
            found.__suppress_context__ = suppressed
    return found


def _cleaned(error: BaseException) -> BaseException:
    notes = getattr(error, "__notes__", None)
    if notes:
        error.__notes__ = [redact(note) for note in notes]
    if _is_clean(error):
        return error
    error.args = tuple(redact(a) if isinstance(a, str) else a for a in error.args)
    for name in ("filename", "filename2", "strerror"):
        if isinstance(value := getattr(error, name, None), str):
            setattr(error, name, redact(value))
    if _is_clean(error):
        return error
    return RedactedError(f"{type(error).__name__}: {redact(str(error))}").with_traceback(error.__traceback__)


def _is_clean(error: BaseException) -> bool:
    texts = [str(error), *(a for a in error.args if isinstance(a, str))]
    return all(redact(text) == text for text in texts)
