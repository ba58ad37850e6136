"""Secrets are in no output: not in the plan, an error, its causes, a traceback, a log or a repr, in any shape."""

from __future__ import annotations

import io
import json
import logging
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from everview.cli.main import main
from everview.cli.status import Status
from everview.errors import EverviewError, PipelineError, TargetError
from everview.redaction import (
    RedactedError,
    forget,
    learn,
    learn_option,
    learn_url,
    redact,
    redact_file,
    redacted,
    scrubbed,
)
from everview.spark.pipeline.failure import cause_of
from everview.spark.pipeline.plan import plan
from everview.spark.pipeline.read import load
from everview.spark.pipeline.run import Ended, Stop, follow, start
from everview.spark.targets import PostgresTarget, named
from tests.spark.feeds import INTS

PASSWORDS = {
    "plain": "hunter2word",
    "short": "xq7",
    "slash": "hun/ter2",
    "at": "hun@ter2",
    "colon": "hun:ter2",
    "question": "hun?ter2",
    "hash": "hun#ter2",
    "percent": "hun%ter2",
    "ampersand": "hun&ter2",
    "equals": "hun=ter2",
    "blank": "hun ter2",
    "quote": "hun'ter2",
    "double quote": 'hun"ter2',
    "backslash": "hun\\ter2",
    "umlaut": "hünter2wört",
    "looks like a variable": "hun$ter2{x}",
}
TARGETS = {
    "userinfo": "postgresql://me:{}@127.0.0.1:1/db?table=v",
    "parameters": "postgresql://127.0.0.1:1/db?user=me&password={}&table=v",
    "ssl": "postgresql://127.0.0.1:1/db?sslpassword={}&table=v",
    "a misspelt scheme": "postgrsql://me:{}@127.0.0.1:1/db?table=v",
    "no table": "postgresql://me:{}@127.0.0.1:1/db",
    "an object store": "delta:s3://bucket/path?aws_secret_access_key={}&history=perhaps",
    "no kind": "//me:{}@127.0.0.1:1/db",
}
VIEWS = """
sources:
  s: {{format: parquet, path: in, schema: "a BIGINT", options: {{password: {options}}}}}
tables: {{t: {{source: s}}}}
views: {{v: SELECT a FROM t}}
targets: {{v: {target}}}
conf: {{spark.hadoop.fs.s3a.secret.key: {options}}}
checkpoint: c
"""


def forms(password: str) -> set[str]:
    """How the password may be written, and the pieces that a parser may take it for."""
    pieces = {p for c in "/@:?#%&= " for p in password.split(c) if len(p) > 3}
    found = {password, quote(password, safe=""), quote_plus(password), json.dumps(password)[1:-1], repr(password)[1:-1]}
    return found | pieces


def assert_hidden(text: str, password: str) -> None:
    for form in forms(password):
        assert form not in text, f"{form} is in: {text}"


def everything(error: BaseException) -> str:
    """All that anybody could print of an error: its texts, its causes', and the traceback."""
    found = ["".join(traceback.format_exception(error))]
    current: BaseException | None = error
    while current is not None:
        found += [str(current), repr(current), repr(current.args), str(getattr(current, "hint", ""))]
        current = current.__cause__ or current.__context__
    return "\n".join(found)


def outputs(folder: Path, target: str, options: str, command: list[str]) -> str:
    """What the command prints, and raises."""
    path = folder / "p.yaml"
    path.write_text(VIEWS.format(target=json.dumps(target), options=json.dumps(options)), encoding="utf-8")
    out, err = io.StringIO(), io.StringIO()
    found = []
    with redirect_stdout(out), redirect_stderr(err):
        main(["run", str(path), *command])
    try:
        pipeline = load(path)
        found += [repr(pipeline), str(plan(pipeline)), json.dumps(plan(pipeline).to_dict())]
        found.append(json.dumps(plan(pipeline).to_dict(), ensure_ascii=False))
        named(pipeline.targets["v"]).check(INTS)
    except EverviewError as error:
        found.append(everything(error))
    return "\n".join([out.getvalue(), err.getvalue(), *found])


@pytest.mark.parametrize("shape", TARGETS)
@pytest.mark.parametrize("password", PASSWORDS.values(), ids=PASSWORDS)
def test_passwords_in_targets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As it is and percent-encoded, written in the file and from the environment, in text and JSON."""
    monkeypatch.setenv("PW", password)
    monkeypatch.setenv("ENCODED", quote(password, safe=""))
    for written in (password, quote(password, safe=""), "${PW}", "${ENCODED}"):
        options = written if written.startswith("$") else password
        for command in (["--dry-run"], ["--dry-run", "--log", "json"]):
            forget()
            text = outputs(tmp_path, TARGETS[shape].format(written), options, command)
            assert_hidden(text.replace(str(tmp_path), ""), password)
            assert text.strip()
    assert_hidden(caplog.text, password)


def test_what_came_from_the_environment_is_shown_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "hunter2word")
    monkeypatch.setenv("HOST", "db.example")
    target = "postgresql://me:${PW}@${HOST}/db?table=v"
    text = outputs(tmp_path, target, "x", ["--dry-run"])
    assert target in text
    assert "db.example" not in text


DRIVERS: dict[str, Callable[[str], BaseException]] = {
    "a message": lambda p: ValueError(f"could not connect with {p} to it"),
    "a URL": lambda p: ValueError(f"invalid dsn postgresql://me:{p}@h/db?user=me&password={p}"),
    "a DSN": lambda p: ValueError(f"missing = in host=h user=me password={quote(p)} dbname=x"),
    "an option": lambda p: ValueError(f"{{'fs.s3a.secret.key': {quote(p)!r}}}"),
    "a path": lambda p: FileNotFoundError(2, "no such file", f"/mnt/{p}"),
    "an argument": KeyError,
    "a note": lambda p: noted(ValueError("no"), f"tried {p}"),
    "Java": lambda p: Java(f"Caused by: org.postgresql.util.PSQLException: {p}\n\tat x.Y(Z)"),
}


class Java(Exception):
    """Its text is not that of its arguments."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def __str__(self) -> str:
        return self.text


def noted(error: Exception, note: str) -> Exception:
    error.add_note(note)
    return error


@pytest.mark.parametrize("make", DRIVERS.values(), ids=DRIVERS)
@pytest.mark.parametrize("password", PASSWORDS.values(), ids=PASSWORDS)
def test_words_of_other_programs(password: str, make: Callable[[str], BaseException]) -> None:
    """A password that is known is in no cause, whoever says it, and however deep."""
    learn(password, "${PW}")

    def raise_all() -> None:
        try:
            try:
                raise make(password)
            except Exception as inner:
                raise RuntimeError(f"{inner}") from inner
        except RuntimeError as error:
            raise TargetError(f"refused: {error}") from scrubbed(error)

    with pytest.raises(TargetError) as caught:
        raise_all()
    text = everything(caught.value)
    for form in forms(password) & {password, quote(password, safe=""), repr(password)[1:-1]}:
        assert form not in text
    assert password not in cause_of(make(password))
    assert isinstance(scrubbed(Java(password)), RedactedError)


def test_psycopgs_own_messages() -> None:
    for url in (
        "postgresql://me:hun/ter2@h/db",
        "postgresql://me:hun@ter2/x@h/db",
        "host=h passwrod=hunter2word",
        "hunter2word",
    ):
        learn("hunter2word")
        with pytest.raises(TargetError, match="its URL cannot be read") as caught:
            PostgresTarget(url, "t")
        assert_hidden(everything(caught.value), "hun/ter2")
        assert "hunter2word" not in everything(caught.value)
    target = PostgresTarget("host=127.0.0.1 port=1 password=hunter2word user=me", "t")
    with pytest.raises(TargetError, match="PostgreSQL refused") as caught:
        target.progress()
    assert_hidden(everything(caught.value), "hunter2word")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:pw@h/db", "postgresql://me:…@h/db"),
        ("postgresql://me:p/w@h/db", "postgresql://me:…@h/db"),
        ("see postgresql://me:p@w@h/db?table=t, please", "see postgresql://me:…@h/db?table=t, please"),
        (
            "jdbc:postgresql://h/db?user=me&password=pw&sslmode=require",
            "jdbc:postgresql://h/db?user=…&password=…&sslmode=require",
        ),
        ("https://ghp_token@github.com/x", "https://…@github.com/x"),
        ("https://a.blob/x?sv=1&sig=abc%3D", "https://a.blob/x?sv=1&sig=…"),
        ("s3a://KEY:SECRET@bucket/x", "s3a://KEY:…@bucket/x"),
        ("host=h password=pw dbname=d", "host=h password=… dbname=d"),
        ("{'password': 'p w', \"api_key\": \"k\"}", "{'password': '…', \"api_key\": \"…\"}"),
        ('sasl.jaas.config=x.Login required username="u" password="p";', None),
        ("AWS_SECRET_ACCESS_KEY=abc", "AWS_SECRET_ACCESS_KEY=…"),
        ("file:///data/x?y", "file:///data/x?y"),
        (
            "SELECT a FROM t WHERE k = 'a=b' -- https://x.org/?q=1",
            "SELECT a FROM t WHERE k = 'a=b' -- https://x.org/?q=1",
        ),
        ("a bypass: 5, an author=me, tokens", "a bypass: 5, an author=me, tokens"),
        ("postgresql://me:${PW}@h/db?password=${PW}", "postgresql://me:${PW}@h/db?password=${PW}"),
    ],
)
def test_by_their_form(text: str, shown: str | None) -> None:
    found = redact(text)
    assert found == shown if shown is not None else '"p"' not in found
    assert redact(found) == found


def test_values_in_every_form() -> None:
    learn('p@ss/wörd "x"', "${PW}")
    for form in (
        'p@ss/wörd "x"',
        "p%40ss%2Fw%C3%B6rd%20%22x%22",
        "p%40ss%2fw%c3%b6rd%20%22x%22",
        "p%40ss%2Fw%C3%B6rd+%22x%22",
    ):
        assert redact(f"<{form}>") == "<${PW}>"
    assert json.loads(json.dumps(redacted({"a": ['p@ss/wörd "x"']}))) == {"a": ["${PW}"]}
    learn("abc")
    assert redact("abc abcd xabc /abc/") == "… abcd xabc /…/"
    learn("7")
    assert redact("7 rows") == "7 rows", "what stands everywhere is nobody's secret"
    learn_option("fs.s3a.access.key", "AKIA1234")
    learn_url("https://me:geheimnis@h/x")
    assert redact("AKIA1234 geheimnis") == "… …"


def test_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    password = "hunter2word"
    learn(password, "${PW}")
    log = logging.getLogger("everview.spark")
    with caplog.at_level(logging.INFO):
        log.warning("%s with %s", "query", "hunter2word")
        try:
            raise ValueError(password)
        except ValueError:
            log.exception("it failed")
    assert "hunter2word" not in caplog.text
    assert "query with ${PW}" in caplog.text
    (tmp_path / "log").write_text("a\nurl=hunter2word\nb\n")
    redact_file(tmp_path / "log")
    assert (tmp_path / "log").read_text() == "a\nurl=${PW}\nb\n"


@pytest.mark.parametrize("log", ["text", "json"])
def test_status(log: str) -> None:
    learn("hunter2word", "${PW}")
    out = io.StringIO()
    status = Status(out, log=log)
    status.say("reading /x/hunter2word")
    status.event("error", message="no hunter2word", more=[{"url": "postgresql://a:b@c/d"}])
    assert "hunter2word" not in out.getvalue()
    assert "${PW}" in out.getvalue()
    assert "a:b@" not in out.getvalue()


@pytest.mark.parametrize(
    "line",
    [
        "password: hunter2xyz: oops",
        "password: *hunter2xyz",
        "password: &hunter2xyz *hunter2xyz2",
        "{user: me, password: hunter2xyz, bad: [1]}",
        "{bad: [1], secret.key: hunter2xyz}",
        "{'api_key': hunter2xyz with blanks, bad: [1]}",
        "- token: hunter2xyz, and more: of it",
    ],
)
def test_a_line_that_is_shown_before_anything_was_learnt_from_it(line: str, tmp_path: Path, capsys: Any) -> None:
    """What is no YAML, or refused before its options are read, is known by its keys alone."""
    path = tmp_path / "p.yaml"
    path.write_text(f"sources:\n  s:\n    format: json\n    schema: a INT\n    path: /\n    options:\n      {line}\n")
    with pytest.raises(PipelineError) as refused:
        load(path)
    assert "hunter2xyz" not in str(refused.value)
    assert main(["run", str(path), "--dry-run"]) == 2
    shown = capsys.readouterr()
    assert "hunter2xyz" not in shown.out + shown.err


def test_an_error_with_its_place_in_the_file(tmp_path: Path, capsys: Any) -> None:
    """The offending line is shown, and underlined, without the password."""
    (tmp_path / "p.yaml").write_text(
        VIEWS.format(target='"postgrsql://me:hunter2word@h/db?table=v"', options="hunter2word")
    )
    assert main(["run", str(tmp_path / "p.yaml"), "--dry-run"]) == 2
    text = capsys.readouterr().err
    assert "names no target" in text
    assert "me:…@h/db" in text
    assert "hunter2word" not in text
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "^" in line)
    assert len(lines[at].rstrip()) <= len(lines[at - 1])


RUNNING = """
sources: {s: {format: json, path: in, schema: "a BIGINT"}}
tables: {t: {source: s}}
views: {v: SELECT a FROM t}
targets: {v: "URL?password=${PW}&table=secret_v"}
checkpoint: checkpoint
shards: 1
trigger: available_now
"""


def test_a_query_and_its_checkpoint(
    spark: Any, postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The database itself says the password, within a batch; it is neither in the error nor in any file."""
    import psycopg

    monkeypatch.setenv("PW", "hunter2word")
    (tmp_path / "in").mkdir()
    (tmp_path / "p.yaml").write_text(RUNNING.replace("URL", postgres))
    pipeline = load(tmp_path / "p.yaml")
    for number in range(2):
        (tmp_path / "in" / f"{number}.json").write_text('{"a": 1}\n')
        query = start(spark, pipeline)
        if number == 0:
            assert follow(query, lambda _: None, Stop()) is Ended.DONE
            with psycopg.connect(postgres) as connection:
                connection.execute(
                    "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS "
                    "$$ BEGIN RAISE EXCEPTION 'the password is hunter2word'; END $$"
                )
                connection.execute("CREATE TRIGGER t BEFORE INSERT ON secret_v EXECUTE FUNCTION tell()")
            continue
        with pytest.raises(PipelineError, match=r"the password is \$\{PW\}") as caught:
            follow(query, lambda _: None, Stop())
    assert_hidden(everything(caught.value), "hunter2word")
    assert_hidden(caplog.text, "hunter2word")
    files = [p for p in (tmp_path / "checkpoint").rglob("*") if p.is_file()]
    assert files
    assert not [p for p in files if b"hunter2word" in p.read_bytes()]
