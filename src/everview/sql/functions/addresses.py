"""Functions of URLs: text written as a part of one, and the parts that one has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from everview.query.types import STRING
from everview.sql.functions.entry import Call, Function, function
from everview.sql.nodes import call, refused

_NO_ESCAPE: Final = "%([^0-9A-Fa-f]|.[^0-9A-Fa-f]|.?$)"
_IN_ASCII: Final = r"[^\x00-\x20\x7f\"#%<>?\[\\\]^`{|}]"
"""What a path may hold as it is, texts of other alphabets among it."""
_ESCAPED: Final = "%[0-9A-Fa-f]{2}"
_PATH: Final = f"(?:{_IN_ASCII}|{_ESCAPED})*"
_MORE: Final = rf"(?:{_IN_ASCII}|[?\[\]]|{_ESCAPED})*"
_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_LAST_LABEL: Final = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_OCTET: Final = "(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_HOST: Final = rf"(?:(?:{_LABEL}\.)*{_LAST_LABEL}\.?|{_OCTET}(?:\.{_OCTET}){{3}}|\[[0-9A-Fa-f:.]+\])"
_USER: Final = rf"(?:[A-Za-z0-9_.!~*'();:&=+$,-]|{_ESCAPED})*"
_SERVER: Final = rf"(?:({_USER})@)?({_HOST})(?::[0-9]*)?"
_SCHEME: Final = "[A-Za-z][A-Za-z0-9+.-]*"
_AUTHORITY: Final = rf"(?:[A-Za-z0-9_.!~*'();:@&=+$,\[\]-]|[^\x00-\x7f]|{_ESCAPED})+"
_TREE: Final = rf"^(?:({_SCHEME}):)?(?://({_AUTHORITY})?)?((?:/|^)?{_PATH})?(?:\?({_MORE}))?(?:#({_MORE}))?$"
"""Scheme, authority, path, query, fragment: as java.net.URI has it, which Spark asks."""
_OPAQUE: Final = rf"^({_SCHEME}):((?:[^\x00-\x20\x7f\"#%/<>\\^`{{|}}]|{_ESCAPED}){_MORE})(?:#({_MORE}))?$"
_PLACES: Final = {"PROTOCOL": 1, "AUTHORITY": 2, "PATH": 3, "QUERY": 4, "REF": 5}


def _quoted(pattern: str) -> str:
    return "'" + pattern.replace("'", "''") + "'"


def _part(of: Call) -> exp.Expr:
    """The part that a literal names."""
    address, named, *key = of.arguments
    if not isinstance(named, exp.Literal) or not named.is_string:
        raise refused(of.name, "the part is a literal, as in 'HOST'")
    name = named.name
    if key and name != "QUERY":
        name = ""
    if name not in (*_PLACES, "HOST", "USERINFO", "FILE"):
        return exp.Cast(this=exp.Null(), to=exp.DataType.build("TEXT"))
    checked = call("spark_address" if of.name == "parse_url" else "spark_tried_address", address)
    if key:
        return call("spark_address_value", checked, key[0])
    return call(f"spark_address_{name.lower()}", checked)


def _macros() -> Mapping[str, str]:
    tree, opaque = _quoted(_TREE), _quoted(_OPAQUE)
    authority = f"regexp_extract(x, {tree}, 2)"
    is_sound = f"(NOT contains({authority}, '[') OR regexp_full_match({authority}, {_quoted(_SERVER)}))"
    is_named = f"(NOT regexp_matches(x, '^[^/?#:]*:') OR regexp_matches(x, '^{_SCHEME}:'))"
    is_full = f"NOT regexp_matches(x, '^{_SCHEME}:(#|$)')"
    is_one = f"regexp_matches(x, {opaque}) OR (regexp_matches(x, {tree}) AND {is_sound} AND {is_named} AND {is_full})"
    return {
        "spark_address(x)": f"CASE WHEN {is_one} THEN x WHEN x IS NOT NULL THEN "
        "error('everview: parse_url of text that is no URL: ' || x) END",
        "spark_tried_address(x)": f"CASE WHEN {is_one} THEN x END",
        "spark_address_group(x, n)": f"regexp_extract(x, {tree}, n)",
        "spark_address_opaque(x)": f"regexp_matches(x, {opaque})",
        "spark_address_protocol(x)": r"nullif(regexp_extract(x, '^([A-Za-z][A-Za-z0-9+.-]*):', 1), '')",
        "spark_address_authority(x)": "CASE WHEN NOT spark_address_opaque(x) "
        "THEN nullif(spark_address_group(x, 2), '') END",
        "spark_address_path(x)": "CASE WHEN NOT spark_address_opaque(x) THEN spark_address_group(x, 3) END",
        "spark_address_query(x)": "CASE WHEN NOT spark_address_opaque(x) AND contains(split_part(x, '#', 1), '?') "
        "THEN spark_address_group(x, 4) END",
        "spark_address_ref(x)": "CASE WHEN contains(x, '#') THEN substring(x, instr(x, '#') + 1) END",
        "spark_address_file(x)": "CASE WHEN contains(split_part(x, '#', 1), '?') THEN spark_address_path(x) || '?' "
        "|| spark_address_query(x) ELSE spark_address_path(x) END",
        "spark_address_server(x, n)": f"CASE WHEN regexp_full_match(spark_address_authority(x), {_quoted(_SERVER)}) "
        f"THEN regexp_extract(spark_address_authority(x), {_quoted('^' + _SERVER + '$')}, n) END",
        "spark_address_host(x)": "nullif(spark_address_server(x, 2), '')",
        "spark_address_userinfo(x)": "CASE WHEN contains(spark_address_authority(x), '@') "
        "THEN spark_address_server(x, 1) END",
        "spark_address_value(x, key)": "list_extract(list_transform(list_filter(string_split("
        "spark_address_query(x), '&'), lambda p: starts_with(p, key || '=')), lambda p: p[length(key) + 2:]), 1)",
    }


def _parts(name: str, macros: Mapping[str, str], *examples: str) -> Function:
    return function(name, "s s s?", STRING, *examples, macros=macros, spelling=_part)


_ADDRESS: Final = "'https://me:pw@example.com:8080/a/b%20c?x=1&y=&x=2#top'"

FUNCTIONS: Final = (
    function(
        "url_encode",
        "s",
        STRING,
        "url_encode(s)",
        "url_encode('a b&c/é~*._-+')",
        macros={
            "spark_url_encode(x)": "replace(replace(replace(url_encode(x), '%20', '+'), '%2A', '*'), '~', '%7E')",
        },
    ),
    function(
        "url_decode",
        "s",
        STRING,
        "url_decode(url_encode(s))",
        "url_decode('a%20b%26+c')",
        macros={
            "spark_url_decode(x)": f"CASE WHEN regexp_matches(x, '{_NO_ESCAPE}') "
            "THEN error('everview: url_decode of text that is no URL: ' || x) "
            "ELSE url_decode(replace(x, '+', ' ')) END",
        },
    ),
    function(
        "try_url_decode",
        "s",
        STRING,
        "try_url_decode('a%20b%26+c')",
        "try_url_decode(concat(s, '%'))",
        "try_url_decode('%4g')",
        macros={
            "spark_try_url_decode(x)": f"CASE WHEN NOT regexp_matches(x, '{_NO_ESCAPE}') "
            "THEN url_decode(replace(x, '+', ' ')) END",
        },
    ),
    _parts(
        "parse_url",
        _macros(),
        *(f"parse_url({_ADDRESS}, '{part}')" for part in (*_PLACES, "HOST", "USERINFO", "FILE", "host")),
        f"parse_url({_ADDRESS}, 'QUERY', 'x')",
        f"parse_url({_ADDRESS}, 'QUERY', u)",
        "parse_url(concat('http://ex-', n, '.org'), 'HOST')",
        "parse_url('http://my_host/p', 'HOST')",
        "parse_url('http://10.1.2.3/?q#', 'HOST')",
        "parse_url('http://10.1.2.3/?q#', 'REF')",
        "parse_url('mailto:a@b.c', 'PATH')",
        "parse_url('mailto:a@b.c', 'PROTOCOL')",
        "parse_url('a/b?c', 'FILE')",
    ),
    _parts(
        "try_parse_url",
        {},
        "try_parse_url(s, 'PATH')",
        "try_parse_url('http://a b/', 'HOST')",
        "try_parse_url('1.2.3.4:80/?', 'PATH')",
        "try_parse_url('https://[::1]:x/', 'PROTOCOL')",
        "try_parse_url('a:?b', 'QUERY')",
        "try_parse_url('http://a.b/%zz', 'HOST')",
        f"try_parse_url({_ADDRESS}, 'HOST')",
    ),
)
