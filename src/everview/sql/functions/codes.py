"""Functions of bytes: digests, encodings, and how long text and binary data are."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from everview.query.types import BIGINT, BINARY, BOOLEAN, INT, STRING, DataType, Kind
from everview.sql.dialect import EverviewSpark
from everview.sql.functions.conversions import bytes_of
from everview.sql.functions.entry import Call, function
from everview.sql.nodes import call, is_whole, refused

_BITS_OF_A_BYTE: Final = 8
_UTF_8: Final = ("utf-8", "utf8")


def _characters(of: Call) -> exp.Expr | None:
    is_binary = of.first_type is not None and of.first_type.kind is Kind.BINARY
    return call("spark_octets", of.arguments[0]) if is_binary else None


def _octets(of: Call) -> exp.Expr | None:
    if of.first_type is None:
        return None
    macro = "spark_octets" if of.first_type.kind is Kind.BINARY else "spark_text_octets"
    return call(macro, of.arguments[0])


def _bits(of: Call) -> exp.Expr | None:
    octets = _octets(of)
    if octets is None:
        return None
    return exp.paren(exp.Mul(this=octets, expression=exp.Literal.number(_BITS_OF_A_BYTE)))


_NAMES: Final[dict[Kind, str]] = {Kind.NULL: "void", Kind.TIMESTAMP_NTZ: "timestamp_ntz"}


def _type_name(of: Call) -> exp.Expr:
    type_ = of.first_type
    if type_ is None:
        raise refused("typeof", "the type of its argument is not known")
    return exp.Literal.string(_shown(type_))


def _shown(type_: DataType) -> str:
    """A type as Spark's catalog writes it."""
    if type_.kind is Kind.STRUCT:
        fields = (f"{name}:{_shown(part)}" for name, part in zip(type_.names, type_.parts, strict=True))
        return f"struct<{','.join(fields)}>"
    if type_.is_nested:
        return f"{type_.kind.value.lower()}<{','.join(map(_shown, type_.parts))}>"
    if type_.kind is Kind.DECIMAL:
        return f"decimal({type_.precision},{type_.scale})"
    if type_.kind is Kind.DAY_TIME:
        return str(type_).lower()
    return _NAMES.get(type_.kind) or str(type_.kind.value).lower()


def _of_bytes(of: Call) -> exp.Expr | None:
    return None if of.first_type is None else of.with_arguments(bytes_of(of.arguments[0], of.first_type))


def _sha256(of: Call) -> exp.Expr:
    value, bits = of.arguments
    if not (is_whole(bits) and int(bits.name) in (0, 256)):
        raise refused(f"sha2 of {bits.sql(EverviewSpark)} bits", "it is known for 256 bits only")
    return call("sha256", value)


def _encoded(of: Call) -> exp.Expr:
    value, character_set = of.arguments
    if character_set.name.lower() not in _UTF_8 or not isinstance(character_set, exp.Literal):
        raise refused(f"encode to {character_set.sql(EverviewSpark)}", "it is known for 'UTF-8' only")
    return call("spark_bytes", value)


def _binary(of: Call) -> exp.Expr:
    text, *form = of.arguments
    name = form[0].name.lower() if form and isinstance(form[0], exp.Literal) else "" if form else "hex"
    tried = exp.Boolean(this=of.name.startswith("try"))
    if name in _UTF_8:
        return call("spark_bytes", text)
    if name not in ("hex", "base64"):
        raise refused(of.name, "the format is a literal: 'hex', 'utf-8' or 'base64'")
    return call("spark_unhexed" if name == "hex" else "spark_of_base64", text, tried)


def _decoded(of: Call) -> exp.Expr:
    """Bytes that are no text of the character set are an error, as in Spark."""
    value, character_set = of.arguments
    if character_set.name.lower() not in _UTF_8 or not isinstance(character_set, exp.Literal):
        raise refused(f"decode from {character_set.sql(EverviewSpark)}", "it is known for 'UTF-8' only")
    is_text = of.first_type is not None and of.first_type.kind is Kind.STRING
    return value if is_text else call("spark_text", value)


def _crc_table() -> str:
    found = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0xEDB88320 if number & 1 else 0)
        found.append(f"{number}")
    return f"CAST([{', '.join(found)}] AS BIGINT[])"


_CRC_MACROS: Final = {
    "spark_bytes_of(y)": "list_transform(regexp_extract_all(hex(y), '..'), lambda h: CAST('0x' || h AS BIGINT))",
    "spark_crc32(y)": f"CASE WHEN y IS NOT NULL THEN xor(list_reduce(list_prepend(CAST(4294967295 AS BIGINT), "
    f"spark_bytes_of(y)), lambda crc, byte: xor(crc >> 8, {_crc_table()}[(xor(crc, byte) & 255) + 1])), "
    "CAST(4294967295 AS BIGINT)) END",
}


def _masked(of: Call) -> exp.Expr:
    """By the marks given, or X, x and n; NULL leaves letters, digits or others as they are."""
    text, *marks = of.arguments
    given = [*marks, *(exp.Literal.string(m) for m in "Xxn"[len(marks) :])]
    return of.with_arguments(text, *given, *([exp.Null()] if len(given) < 4 else []))


_CHAR: Final = "CASE WHEN n < 0 THEN '' ELSE chr(CAST(n & 255 AS INTEGER)) END"
_NO_HASHES: Final = "Spark's hash functions are not known here; md5, sha1, sha2 and crc32 are"

FUNCTIONS: Final = (
    function(
        "length len", "y", INT, "length(s)", "length(y)", "len(s)", "len(y)", spelling=_characters, is_strict=True
    ),
    function("octet_length", "y", INT, "octet_length(s)", "octet_length(y)", spelling=_octets),
    function("bit_length", "y", INT, "bit_length(s)", "bit_length(y)", spelling=_bits),
    function("md5", "y", STRING, "md5(s)", "md5(y)"),
    function("sha1 sha", "y", STRING, "sha1(s)", "sha(s)", "sha(y)"),
    function("sha2", "y i", STRING, "sha2(s, 256)", "sha2(y, 0)", spelling=_sha256),
    function("crc32", "y", BIGINT, "crc32(s)", "crc32(y)", macros=_CRC_MACROS, spelling=_of_bytes),
    function(
        "hash",
        "x*",
        INT,
        "hash(s)",
        "hash(i)",
        "hash(l, s)",
        "hash(b, d, ts)",
        "hash(y)",
        "hash(p)",
        refusal=_NO_HASHES,
    ),
    function(
        "xxhash64",
        "x*",
        BIGINT,
        "xxhash64(s)",
        "xxhash64(i)",
        "xxhash64(l, s)",
        "xxhash64(b, d, ts)",
        "xxhash64(y)",
        "xxhash64(p)",
        refusal=_NO_HASHES,
    ),
    function("hex", "x", STRING, "hex(s)", "hex(i)", "hex(y)", "hex(l)"),
    function("unhex", "s", BINARY, "unhex('4A4b')", "unhex(hex(y))", "unhex('ABC')"),
    function("bin", "i", STRING, "bin(i)", "bin(l)"),
    function("char chr", "i", STRING, "char(n + 96)", "chr(n + 64)", "chr(i)", macros={"spark_char(n)": _CHAR}),
    function("base64", "y", STRING, "base64(s)", "base64(y)", spelling=_of_bytes),
    function("unbase64", "s", BINARY, "unbase64('aGVsbG8=')", "unbase64(base64(y))"),
    function("encode", "s s", BINARY, "encode(s, 'UTF-8')", spelling=_encoded),
    function("decode", "y s", STRING, "decode(encode(s, 'UTF-8'), 'utf-8')", spelling=_decoded),
    function(
        "is_valid_utf8",
        "y",
        BOOLEAN,
        "is_valid_utf8(s)",
        "is_valid_utf8(y)",
        macros={"spark_is_valid_utf8(x)": "CASE WHEN x IS NOT NULL THEN TRY(decode(x)) IS NOT NULL END"},
        spelling=_of_bytes,
    ),
    function(
        "to_binary try_to_binary",
        "s s?",
        BINARY,
        "to_binary('4A4b')",
        "to_binary(s, 'utf-8')",
        "to_binary('aGVsbG8=', 'base64')",
        "try_to_binary('4A4', 'hex')",
        "try_to_binary(s)",
        "try_to_binary('a!', 'base64')",
        macros={
            "spark_unhexed(x, tried)": "CASE WHEN regexp_full_match(x, '[0-9A-Fa-f]*') THEN unhex(x) "
            "ELSE CAST(spark_bad(x, tried) AS BLOB) END",
            "spark_of_base64(x, tried)": "CASE WHEN tried THEN TRY(from_base64(x)) ELSE from_base64(x) END",
        },
        spelling=_binary,
    ),
    function(
        "mask",
        "s s? s? s? s?",
        STRING,
        "mask(s)",
        "mask(s, 'q')",
        "mask(s, NULL, 'y', '#', '*')",
        macros={
            "spark_mark(c, upper_case, lower_case, digit, other)": "coalesce(CASE WHEN regexp_full_match(c, "
            "'\\p{Lu}') THEN upper_case WHEN regexp_full_match(c, '\\p{Ll}') THEN lower_case "
            "WHEN regexp_full_match(c, '\\p{Nd}') THEN digit ELSE other END, c)",
            "spark_mask(x, upper_case, lower_case, digit, other)": "CASE WHEN x <> '' THEN array_to_string("
            "list_transform(string_split(x, ''), lambda c: spark_mark(c, upper_case, lower_case, digit, other)), '') "
            "ELSE x END",
        },
        spelling=_masked,
    ),
    function(
        "quote",
        "s",
        STRING,
        "quote(s)",
        r"quote('Don\'t \\ ')",
        macros={"spark_quote(x)": "chr(39) || replace(x, chr(39), '\\' || chr(39)) || chr(39)"},
    ),
    function(
        "typeof",
        "x",
        STRING,
        "typeof(i)",
        "typeof(p)",
        "typeof(NULL)",
        "typeof(array(named_struct('a', l, 'b', map(s, t))))",
        "typeof(ts)",
        "typeof(d)",
        spelling=_type_name,
    ),
)
