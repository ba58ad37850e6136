"""Targets by a line of text: a kind, where it is, and options after a question mark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from urllib.request import url2pathname

from everview.errors import TargetError
from everview.redaction import learn_url
from everview.spark.targets.base import Target
from everview.spark.targets.delta import DeltaTarget
from everview.spark.targets.parquet import ParquetTarget
from everview.spark.targets.postgres import PostgresTarget

_FORMS = (
    "parquet:/path, delta:/path?history=true, delta:s3://bucket/path, "
    "postgresql://user@host/database?table=name&schema=public"
)
_BOOLEANS = {"true": True, "false": False}


def named(target: object) -> Target:
    """The target that a text names; a target is itself."""
    if isinstance(target, Target):
        return target
    if isinstance(target, str):
        learn_url(target)
        kind, _, rest = target.partition(":")
        if kind == "parquet" and rest:
            return _parquet(*_located(kind, rest))
        if kind == "delta" and rest:
            return _delta(*_located(kind, rest))
        if kind in ("postgresql", "postgres") and rest:
            return _postgres(target)
    raise TargetError(f"{target!r} names no target", hint=f"it is a target object or a text such as {_FORMS}")


def absolute(target: str, folder: Path) -> str:
    """A target's text in which a path that does not begin at the root begins at a folder."""
    kind, _, rest = target.partition(":")
    if kind not in ("parquet", "delta") or not rest:
        return target
    path, question, options = rest.partition("?")
    path, _ = _located(kind, path)
    return f"{kind}:{path if '://' in path else folder / Path(path).expanduser()}{question}{options}"


def _located(kind: str, rest: str) -> tuple[str, dict[str, str]]:
    """Where it is, a path or the URL of an object store, and the options."""
    path, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if path.startswith("file:"):
        parts = urlsplit(path)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise TargetError(
                f"{kind}:{path} names no file of this machine", hint=f"write {kind}:/path or {kind}:file:///path"
            )
        return url2pathname(parts.path), options
    return "/" + path.lstrip("/") if path.startswith("//") else path, options


def _parquet(path: str, options: Mapping[str, str]) -> ParquetTarget:
    _known("parquet", options, ("keep", "bucket_rows"))
    return ParquetTarget(path, **{name: _number("parquet", name, value) for name, value in options.items()})


def _delta(path: str, options: Mapping[str, str]) -> DeltaTarget:
    """What is no option of the target is one of the object store, where there is one."""
    own = {name: value for name, value in options.items() if name in ("history", "bucket_rows")}
    storage = {name: value for name, value in options.items() if name not in own}
    if storage and "://" not in path:
        _known("delta", options, ("history", "bucket_rows"))
    history = own.pop("history", "false").lower()
    if history not in _BOOLEANS:
        raise TargetError(f"the option history of a delta target is {history!r}", hint="it is true or false")
    numbers = {name: _number("delta", name, value) for name, value in own.items()}
    return DeltaTarget(path, history=_BOOLEANS[history], storage_options=storage or None, **numbers)


def _known(kind: str, options: Mapping[str, str], known: tuple[str, ...]) -> None:
    for name in options:
        if name not in known:
            raise TargetError(
                f"a {kind} target has no option {name}",
                hint=f"its options are {' and '.join(known)}; a path with a ? in it needs a target object",
            )


def _number(kind: str, name: str, value: str) -> int:
    if not value.isdecimal():
        raise TargetError(f"the option {name} of a {kind} target is {value!r}", hint="it is a whole number")
    return int(value)


def _postgres(url: str) -> PostgresTarget:
    """Take ``table`` and ``schema`` out of the URL's parameters; the rest is PostgreSQL's own."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    table, schema = options.pop("table", ""), options.pop("schema", "public")
    if not table or not schema:
        raise TargetError(
            "the URL of a PostgreSQL target names no table", hint=f"add ?table=name to it, as in {_FORMS}"
        )
    return PostgresTarget(urlunsplit(parts._replace(query=urlencode(options))), table, schema)
