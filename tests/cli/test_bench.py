"""``everview bench`` and ``everview enclosureness``: files in, text or JSON out, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from everview.cli.main import BAD_QUERY, main

SCHEMA = "CREATE TABLE follows (src BIGINT, dst BIGINT)"
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
    monkeypatch.setattr("everview.engine.bench.break_even", lambda *_: size)
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
    monkeypatch.setattr("everview.engine.recompute.Recomputation.difference", lambda *_: "1 of 2 rows differ")
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
    "bad window": (["--data", "follows={file}", "--window", "7"], "no share of the rows"),
    "rules": (["--data", "follows={file}", "--sql", "q(x) :- follows(x, y)."], "is given by rules"),
    "two views": (["--data", "follows={file}", "--sql", f"{HOPS}; {HOPS}"], "2 views"),
    "bad SQL": (["--data", "follows={file}", "--sql", "SELEC 1"], "did you mean SELECT?"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_refused(capsys: pytest.CaptureFixture[str], follows: Path, arguments: list[str], said: str) -> None:
    filled = [a.replace("{file}", str(follows)) for a in arguments]
    sql = [] if "--sql" in filled else ["--sql", HOPS]
    code, out, err = run(capsys, "bench", "--schema", SCHEMA, *sql, *filled)
    assert (code, out) == (BAD_QUERY, "")
    assert err.startswith("everview: ")
    assert said in err
