"""``everview bench`` and ``everview enclosureness``: files in, text or JSON out, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path
from typing import IO, Any

import pytest

from everview.cli.main import BAD_QUERY, INTERRUPTED, main
from tests.spark.shards import until

SCHEMA = "CREATE TABLE follows (src BIGINT, dst BIGINT)"
TWO_TABLES = "CREATE TABLE names (id BIGINT); SELECT src FROM follows JOIN names ON src = id"
HOPS = "SELECT a.src, a.dst AS mid, b.dst FROM follows a JOIN follows b ON a.dst = b.src"


@pytest.fixture
def follows(tmp_path: Path) -> Path:
    file = tmp_path / "follows.csv"
    rows = [f"{i % 17},{(i * 7) % 19}" for i in range(400)]
    file.write_text("\n".join(["src,dst", *rows]) + "\n", encoding="utf-8")
    return file


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_bench_as_text(capsys: pytest.CaptureFixture[str], follows: Path) -> None:
    code, out, err = run(
        capsys, "bench", "--sql", HOPS, "--schema", SCHEMA, "--data", f"follows={follows}", "--seconds", "0.2"
    )
    assert (code, err) == (0, "")
    names = [line.split()[0] for line in out.splitlines() if line and not line.startswith(" ")]
    assert names == ["view", "verdict", "updates", "loaded", "memory", "recompute", "break-even", "λ", "result"]
    assert "q-hierarchical" in out
    assert "sliding window" in out
    assert "equal to the query run afresh" in out


def test_bench_as_json(capsys: pytest.CaptureFixture[str], follows: Path) -> None:
    arguments = ("--sql", HOPS, "--schema", SCHEMA, "--data", str(follows.parent), "--batch", "5", "--batch", "50")
    code, out, _ = run(capsys, "bench", *arguments, "--json", "--seconds", "0.2", "--window", "0.5")
    found = json.loads(out)
    assert code == 0
    assert [b["size"] for b in found["batches"]] == [50, 5]
    assert found["updates"] == 600
    assert found["result"]["correct"] is True
    assert found["break_even"] >= 1
    assert found["enclosureness"]["lambda"] == 1


@pytest.mark.parametrize(
    ("size", "sizes", "said"),
    [
        (1, ("1", "10"), "none: recomputing the view is quicker even than a batch of one update"),
        (5, ("1", "10"), "batches of 5 updates: below that, maintaining the view is quicker"),
        (500, ("1", "10"), "batches of 500 updates (extrapolated from batches of 10): below"),
        (5, ("10", "20"), "batches of 5 updates (extrapolated from batches of 10): below"),
    ],
)
def test_break_even_in_words(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    follows: Path,
    size: int,
    sizes: tuple[str, str],
    said: str,
) -> None:
    monkeypatch.setattr("everview.tools.bench.break_even", lambda *_: size)
    batches = [a for s in sizes for a in ("--batch", s)]
    arguments = ("--sql", HOPS, "--schema", SCHEMA, "--data", f"follows={follows}", "--seconds", "0.1")
    _, out, _ = run(capsys, "bench", *arguments, *batches)
    assert f"\nbreak-even  {said}" in out


def test_batches_that_the_data_cannot_fill_are_told(capsys: pytest.CaptureFixture[str], follows: Path) -> None:
    arguments = ("--sql", HOPS, "--schema", SCHEMA, "--data", f"follows={follows}", "--batch", "9000")
    _, out, _ = run(capsys, "bench", *arguments)
    assert "batches of 9,000 were to be measured, but only 360 updates were left for them" in out


def test_a_wrong_result_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, follows: Path
) -> None:
    monkeypatch.setattr("everview.tools.oracle.Recomputation.difference", lambda *_: "1 of 2 rows differ")
    code, out, _ = run(
        capsys, "bench", "--sql", HOPS, "--schema", SCHEMA, "--data", f"follows={follows}", "--seconds", "0.1"
    )
    assert code == 1
    assert "WRONG: 1 of 2 rows differ" in out


def test_enclosureness(capsys: pytest.CaptureFixture[str], follows: Path) -> None:
    arguments = ("enclosureness", "--sql", HOPS, "--schema", SCHEMA, "--log", f"follows={follows}")
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert "predicts    O(1) an update" in out
    code, out, _ = run(capsys, *arguments, "--json")
    assert json.loads(out)["cores"][0]["height"] == 1


BAD = {
    "not TABLE=FILE": (["--data", "follows"], "is neither TABLE=FILE nor a folder"),
    "no such file": (["--data", "follows=nowhere.csv"], "no file nowhere.csv"),
    "unknown table": (["--data", "others={file}"], "there is no table others"),
    "table twice": (["--data", "follows={file}", "--data", "follows={file}"], "names follows twice"),
    "unknown initial table": (["--data", "follows={file}", "--initial", "x"], "there is no table x"),
    "rules": (["--data", "follows={file}", "--sql", "q(x) :- follows(x, y)."], "is given by rules"),
    "two views": (["--data", "follows={file}", "--sql", f"{HOPS}; {HOPS}"], "2 views"),
    "folder as a file": (["--data", "follows={folder}"], "is a folder, and one file is expected"),
    "two folders": (["--data", "{folder}", "--data", "{folder}"], "is a folder, and there is another --data"),
    "folder and file": (["--data", "{folder}", "--data", "follows={file}"], "is a folder, and there is another --data"),
    "folder without a file": (["--data", "{folder}/empty"], "has no file for any table (follows)"),
    "not UTF-8": (["--data", "follows={file}", "--sql", "{folder}/latin.sql"], "latin.sql: no text in UTF-8"),
    "data for no table": (["--data", "follows={folder}/others.csv"], "others.csv has no column src"),
    "no data for a table": (["--data", "follows={file}", "--sql", TWO_TABLES], "the view reads names, and there is no"),
    "bad SQL": (["--data", "follows={file}", "--sql", "SELEC 1"], "did you mean SELECT?"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_refused(capsys: pytest.CaptureFixture[str], follows: Path, arguments: list[str], said: str) -> None:
    (follows.parent / "empty").mkdir()
    (follows.parent / "latin.sql").write_bytes(b"SELECT src AS \xe5 FROM follows")
    (follows.parent / "others.csv").write_text("a\n1\n")
    filled = [a.replace("{file}", str(follows)).replace("{folder}", str(follows.parent)) for a in arguments]
    sql = [] if "--sql" in filled else ["--sql", HOPS]
    code, out, err = run(capsys, "bench", "--schema", SCHEMA, *sql, *filled)
    assert (code, out) == (BAD_QUERY, "")
    assert err.startswith("everview: ")
    assert said in err


USAGE = {
    "no number": ("bench", "--batch", "abc", "'abc' is no whole number above 0"),
    "no update": ("bench", "--batch", "0", "'0' is no whole number above 0"),
    "no time": ("bench", "--seconds", "0", "'0' is no number of seconds above 0"),
    "not a number": ("bench", "--seconds", "nan", "'nan' is no number of seconds above 0"),
    "too large a window": ("bench", "--window", "7", "'7' is no share of the rows"),
    "no window": ("enclosureness", "--window", "x", "'x' is no share of the rows"),
    "fewer trees than none": ("enclosureness", "--trees", "-1", "'-1' is no whole number"),
}


@pytest.mark.parametrize(("command", "option", "value", "said"), USAGE.values(), ids=USAGE)
def test_wrong_usage(
    capsys: pytest.CaptureFixture[str], follows: Path, command: str, option: str, value: str, said: str
) -> None:
    data = "--data" if command == "bench" else "--log"
    with pytest.raises(SystemExit) as ended:
        main([command, "--schema", SCHEMA, "--sql", HOPS, data, f"follows={follows}", f"{option}={value}"])
    assert ended.value.code == BAD_QUERY
    assert f"argument {option}: {said}" in capsys.readouterr().err


def test_rows_that_were_there_before_are_no_updates(capsys: pytest.CaptureFixture[str], follows: Path) -> None:
    names = follows.parent / "names.csv"
    names.write_text("\n".join(["id", *map(str, range(17))]) + "\n", encoding="utf-8")
    arguments = ("--sql", TWO_TABLES, "--schema", SCHEMA, "--data", str(follows.parent), "--initial", "names")
    code, out, _ = run(capsys, "bench", *arguments, "--seconds", "0.1")
    assert code == 0
    assert "updates     720 of follows\n            rows that were there before: 17 of names\n" in out


def test_a_query_in_one_long_line(capsys: pytest.CaptureFixture[str], follows: Path) -> None:
    """Longer than the name of a file can be."""
    query = f"SELECT src AS {'s' * 300} FROM follows"
    code, out, err = run(capsys, "enclosureness", "--sql", query, "--schema", SCHEMA, "--log", f"follows={follows}")
    assert (code, err) == (0, "")
    assert "720 updates" in out


def everview(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """A process that hears Ctrl-C, also where the tests themselves run in the background and do not."""
    command = [sys.executable, "-m", "everview", *arguments]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what is ignored here is ignored there
    try:
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, encoding="utf-8", **options)
    finally:
        signal.signal(signal.SIGINT, before)


def test_readers_that_have_seen_enough(follows: Path) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with everview(
        "enclosureness", "--sql", HOPS, "--schema", SCHEMA, "--log", f"follows={follows}", stdout=theirs
    ) as process:
        os.close(theirs)
        assert (process.communicate()[1], process.returncode) == ("", 0)


def test_terminals_without_greek(follows: Path) -> None:
    arguments = ("enclosureness", "--sql", HOPS, "--schema", SCHEMA, "--log", f"follows={follows}")
    with everview(*arguments, stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "ascii"}) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "predicts    O(1) an update, whatever ? is" in out


def unread(pipe: IO[str]) -> int:
    """How many bytes are still in a pipe."""
    return int(struct.unpack("i", ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0])


def test_ctrl_c(follows: Path) -> None:
    """Without a word, whatever is going on."""
    arguments = ("bench", "--sql", "-", "--schema", SCHEMA, "--data", f"follows={follows}")
    with everview(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write("SELECT ")
        process.stdin.flush()
        pipe = process.stdin
        until(lambda: not unread(pipe))  # It has read that, and waits for the rest of its query.
        process.send_signal(signal.SIGINT)
        assert (*process.communicate(), process.returncode) == ("", "", INTERRUPTED)
