"""The ``everview`` command: inputs, formats, exit codes, messages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest

import everview as ev
from everview.cli.main import BAD_QUERY, main

SCHEMA = "CREATE TABLE follows (src BIGINT, dst BIGINT)"
HOPS = "SELECT a.src, a.dst AS mid, b.dst FROM follows a JOIN follows b ON a.dst = b.src"
TWO_VIEWS = f"{SCHEMA}; CREATE VIEW one AS {HOPS}; CREATE VIEW two AS SELECT src FROM follows;"
SVG = "{http://www.w3.org/2000/svg}"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["explain", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def python_m(arguments: Sequence[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "everview", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, encoding="utf-8", check=False)


def test_text_is_the_explanation(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--sql", HOPS, "--schema", SCHEMA)
    assert (code, err) == (0, "")
    assert out == f"{ev.explain(HOPS, SCHEMA)}\n"


def test_json_is_the_dictionary(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--sql", HOPS, "--schema", SCHEMA, "--format", "json")
    assert code == 0
    assert json.loads(out) == ev.explain(HOPS, SCHEMA).to_dict()


def test_json_of_several_views_is_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--sql", TWO_VIEWS, "--format", "json")
    assert code == 0
    assert [view["view"] for view in json.loads(out)] == ["one", "two"]


def test_text_of_several_views_is_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--sql", TWO_VIEWS)
    assert code == 0
    assert [line.split("(")[0] for line in out.splitlines() if line.startswith("view ")] == [
        "view        one",
        "view        two",
    ]


def test_svg_is_well_formed_and_shows_every_relation(capsys: pytest.CaptureFixture[str]) -> None:
    sql = "q(a, e) :- r(a, b), s(b, c), t(c, a), edge(a, d), u(d, e, '<&\">')."
    code, out, _ = run(capsys, "--sql", sql, "--format", "svg")
    assert code == 0
    texts = " ".join(t.text or "" for t in ElementTree.fromstring(out).iter(f"{SVG}text"))
    for relation in ("r ⋈ s ⋈ t", "edge(", "u(", "<&"):
        assert relation in texts
    assert "update" in texts


def test_labels_of_links_are_drawn_above_their_background_in_every_renderer() -> None:
    """A renderer that does not know paint-order strokes a text after it has filled it: no text has a stroke."""
    picture = ev.explain("q(a, b, c) :- r(a, b), s(b, c).").to_svg()
    style = picture.partition("<style>")[2].partition("</style>")[0]
    assert "paint-order" not in style
    rules = dict(rule.split("{") for rule in style.split("}") if rule)
    drawn = list(ElementTree.fromstring(picture).iter())
    label = next(e for e in drawn if e.tag == f"{SVG}text" and e.text == "b")
    assert not any("stroke" in rules.get(f".{name}", "") for name in label.attrib["class"].split())
    below = drawn[drawn.index(label) - 1]
    assert (below.tag, below.attrib["class"]) == (f"{SVG}rect", "under")
    assert float(below.attrib["x"]) < float(label.attrib["x"]) < float(below.attrib["x"]) + float(below.attrib["width"])


def test_boxes_of_the_picture_do_not_overlap() -> None:
    sql = "q(a, b, c) :- r(a, b), long_relation_name(a, b, c), s(a, x), t(b, y), u(c, z), v(c, w), tiny(w)."
    boxes = [
        tuple(float(rect.attrib[k]) for k in ("x", "y", "width", "height"))
        for rect in ElementTree.fromstring(ev.explain(sql).to_svg()).iter(f"{SVG}rect")
        if "class" in rect.attrib
    ]
    assert len(boxes) >= 7
    for i, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[:i]:
            beside = x + width <= other_x or other_x + other_width <= x
            assert beside or y + height <= other_y or other_y + other_height <= y


def test_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "view.sql").write_text(HOPS, encoding="utf-8")
    (tmp_path / "tables.sql").write_text(SCHEMA, encoding="utf-8")
    code, out, _ = run(capsys, "--sql", str(tmp_path / "view.sql"), "--schema", str(tmp_path / "tables.sql"))
    assert (code, out) == (0, f"{ev.explain(HOPS, SCHEMA)}\n")


@pytest.mark.parametrize(("option", "other"), [("--sql", "--schema"), ("--schema", "--sql")])
def test_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, option: str, other: str
) -> None:
    texts = {"--sql": HOPS, "--schema": SCHEMA}
    monkeypatch.setattr(sys, "stdin", StringIO(texts[option]))
    code, out, _ = run(capsys, option, "-", other, texts[other])
    assert (code, out) == (0, f"{ev.explain(HOPS, SCHEMA)}\n")


def test_output_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "plan.svg"
    code, out, _ = run(capsys, "--sql", HOPS, "--schema", SCHEMA, "--format", "svg", "--output", str(target))
    assert (code, out) == (0, "")
    assert target.read_text(encoding="utf-8") == ev.explain(HOPS, SCHEMA).to_svg() + "\n"


def test_updates_change_the_tree(capsys: pytest.CaptureFixture[str]) -> None:
    path = "q(a, b, c, d) :- r(a, b), s(b, c), t(c, d)."
    _, usual, _ = run(capsys, "--sql", path)
    code, out, _ = run(capsys, "--sql", path, "--rates", "t=1000", "--updates", "r=1")
    assert code == 0
    assert "● [b]" in usual
    assert "● [c]" in out


BAD = {
    "bad SQL": (["--sql", "SELEC 1"], ["SqlSyntaxError", "did you mean SELECT?", "line 1, column 1"]),
    "unsupported SQL": (
        ["--sql", "SELECT src FROM follows LIMIT 1 + 1", "--schema", SCHEMA],
        ["UnsupportedError", "LIMIT", "hint:"],
    ),
    "unknown table": (["--sql", HOPS], ["UnknownNameError", "there is no table follows"]),
    "bad schema": (
        ["--sql", HOPS, "--schema", "CREATE TABLE follows (src BIGINT, src BIGINT)"],
        ["SchemaError", "src"],
    ),
    "bad rule": (["--sql", "q(x) :- r(x"], ["RuleSyntaxError"]),
    "unsafe rule": (["--sql", "q(x, y) :- r(x)."], ["UnsafeQueryError", "y"]),
    "no view": (["--sql", SCHEMA], ["there is no view to explain"]),
    "no such file": (["--sql", "nowhere/view.sql"], ["no file nowhere/view.sql"]),
    "no such schema file": (["--sql", HOPS, "--schema", "nowhere.sql"], ["no file nowhere.sql"]),
    "updates without a number": (["--sql", HOPS, "--schema", SCHEMA, "--rates", "follows"], ["TABLE=NUMBER"]),
    "updates that are no number": (["--sql", HOPS, "--schema", SCHEMA, "--rates", "follows=x"], ["TABLE=NUMBER"]),
    "negative updates": (["--sql", HOPS, "--schema", SCHEMA, "--rates", "follows=-1"], ["StatisticsError", "-1"]),
    "infinite updates": (["--sql", HOPS, "--schema", SCHEMA, "--rates", "follows=inf"], ["StatisticsError", "inf"]),
    "several views as a picture": (["--sql", TWO_VIEWS, "--format", "svg"], ["a picture shows one view", "2"]),
    "both from standard input": (["--sql", "-", "--schema", "-"], ["only one of --sql and --schema"]),
    "no such folder to write to": (
        ["--sql", HOPS, "--schema", SCHEMA, "--output", "nowhere/plan.txt"],
        ["cannot read or write"],
    ),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], said: list[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == BAD_QUERY == 2
    assert out == ""
    assert err.startswith("everview: ")
    assert "Traceback" not in err
    for words in said:
        assert words in err


def test_a_file_that_is_no_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "view.sql").write_bytes(b"\xff\xfe\x00")
    code, _, err = run(capsys, "--sql", str(tmp_path / "view.sql"))
    assert code == BAD_QUERY
    assert "cannot read" in err


@pytest.mark.parametrize("arguments", [[], ["explain"], ["explain", "--sql", "x", "--format", "png"], ["nonsense"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: everview" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"everview {ev.__version__}\n"


def test_python_m() -> None:
    done = python_m(["explain", "--sql", "-", "--schema", SCHEMA], stdin=HOPS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{ev.explain(HOPS, SCHEMA)}\n"
    refused = python_m(["explain", "--sql", "SELEC"])
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("everview: SqlSyntaxError")


def test_import_is_light() -> None:
    everything = ("pyspark", "pandas", "duckdb", "sqlglot", "pyarrow")
    without_pandas = ("pyspark", "duckdb", "sqlglot", "pyarrow")  # pyarrow loads pandas with its first scalar
    for code, heavy, loaded in (("", everything, []), ("everview.Database();", without_pandas, ["pyarrow"])):
        listed = f"print([m for m in {heavy} if m in sys.modules])"
        command = [sys.executable, "-c", f"import sys, everview; {code} {listed}"]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == str(loaded)


def test_explain_imports_no_spark() -> None:
    code = "import sys, everview; everview.explain('q(x) :- r(x).'); print({'pyspark', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
