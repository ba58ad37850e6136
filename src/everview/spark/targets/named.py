"""Targets by a line of text."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from everview.errors import TargetError
from everview.spark.targets.base import Target
from everview.spark.targets.delta import DeltaTarget
from everview.spark.targets.parquet import ParquetTarget
from everview.spark.targets.postgres import PostgresTarget

_FORMS = "parquet:/path, delta:/path, delta:s3://bucket/path, postgresql://user@host/database?table=name&schema=public"


def named(target: object) -> Target:
    """The target that a text names; a target is itself."""
    if isinstance(target, Target):
        return target
    if isinstance(target, str):
        kind, _, rest = target.partition(":")
        if kind == "parquet" and rest:
            return ParquetTarget(_path(rest))
        if kind == "delta" and rest:
            return DeltaTarget(_path(rest))
        if kind in ("postgresql", "postgres") and rest:
            return _postgres(target)
    raise TargetError(f"{target!r} names no target", hint=f"it is a target object or a text such as {_FORMS}")


def _path(rest: str) -> str:
    """``/path`` of ``/path`` and of ``///path``; a URL of another scheme stays as it is."""
    return "/" + rest.lstrip("/") if rest.startswith("//") else rest


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
