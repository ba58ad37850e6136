"""SNB-derived logs: a social network whose friendships and messages live for some days (crown.md 10).

The tables are those of benchmarks/workloads/crown/schema.sql. Persons and tags are there before the log begins.
Friendships (a row for each direction), messages (posts, and comments that reply to one) and their tags come at their
creation dates and go some days later, all in one order. The rows are those of files of the LDBC data generator, or made
here with the same shape: this is no LDBC benchmark, and results are to be called SNB-derived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from benchmarks.data.log import BEFORE, Log
from everview.sql import parse_schema

SCHEMA = Path(__file__).parent.parent / "workloads" / "crown" / "schema.sql"
TABLES = ("person", "tag", "knows", "message", "message_tag")
FILES = "snb-tiny"
SEED = 20_100_103
DAY = 86_400_000_000
"""Microseconds."""
FIRST_DAY, DAYS = np.datetime64("2010-01-01", "us"), 1_096
"""Generated networks live for three years, as LDBC's do."""
TAGS = 16_080
"""At every scale, as in LDBC's."""
STAMP = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Network:
    """The rows of a network; what is dated has its creation date in microseconds beside it."""

    name: str
    persons: pa.Table
    tags: pa.Table
    friendships: pa.Table
    """Each pair of persons once: ``person``, ``friend``, ``date``."""
    messages: pa.Table
    """``id``, ``date``, ``content``, ``creator``, ``reply_of``."""
    message_tags: pa.Table
    """``message``, ``tag``; a message's tags have its date."""


def log(scale: float, folder: Path, given: Path | None = None, days: int | None = None) -> Log:
    """Write a log to a folder: of the files in ``given/snb-tiny``, whatever the scale, or of a generated network.

    Rows live for so many days: by default a fifth of the time that the network covers.
    """
    network = generate(scale) if given is None else read(given / FILES)
    return Log.write(folder, network.name, _schema(), _updates(network, days))


def _schema() -> str:
    """The statements that create the tables of the network, and no others."""
    text = SCHEMA.read_text(encoding="utf-8")
    statements = [f"{s.strip()};\n" for s in text.split(";") if s.strip()]
    return "".join(s for s in statements if next(iter(parse_schema(s))).name in TABLES)


# --- from files ------------------------------------------------------------------------------------------------------


def read(folder: Path) -> Network:
    """The network of a folder that LDBC's generator wrote, ``|``-separated."""
    post = _read(folder, "post", ["id", "creationDate", "content", "creator"])
    comment = _read(folder, "comment", ["id", "creationDate", "content", "creator", "replyOfPost", "replyOfComment"])
    nothing = pa.nulls(len(post), pa.int64())
    reply_of = pc.coalesce(comment["replyOfPost"].cast(pa.int64()), comment["replyOfComment"].cast(pa.int64()))
    names = ["id", "date", "content", "creator", "reply_of"]
    messages = pa.concat_tables(
        [
            pa.table([*_message_columns(post), nothing], names=names),
            pa.table([*_message_columns(comment), reply_of], names=names),
        ]
    )
    person = _read(folder, "person", ["id", "firstName", "lastName"])
    tag = _read(folder, "tag", ["id", "name"])
    knows = _read(folder, "person_knows_person", None)
    tagged = [
        _read(folder, f"{kind}_hasTag_tag", None).rename_columns(["message", "tag"]) for kind in ("post", "comment")
    ]
    friendships = pa.table([knows[0], knows[1], _microseconds(knows[2])], names=["person", "friend", "date"])
    return Network("SNB-derived, snb-tiny", person, tag, friendships, messages, pa.concat_tables(tagged))


def _read(folder: Path, name: str, columns: Sequence[str] | None) -> pa.Table:
    """Columns of a file; it quotes nothing, and an empty field is NULL in a column of numbers."""
    parse = csv.ParseOptions(delimiter="|", quote_char=False)
    texts = ("content", "firstName", "lastName", "name", "creationDate")
    types = {c: pa.string() for c in texts} | {c: pa.int64() for c in ("replyOfPost", "replyOfComment")}
    convert = csv.ConvertOptions(column_types=types, include_columns=columns, strings_can_be_null=False)
    return csv.read_csv(folder / f"{name}.csv.gz", parse_options=parse, convert_options=convert)


def _message_columns(table: pa.Table) -> list[pa.ChunkedArray]:
    return [table["id"], _microseconds(table["creationDate"]), table["content"], table["creator"]]


def _microseconds(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates as 2010-06-27T23:36:57.962+0000, all in UTC, in microseconds."""
    return pc.utf8_slice_codeunits(texts.cast(pa.string()), 0, 23).cast(pa.timestamp("us")).cast(pa.int64())


# --- generated -------------------------------------------------------------------------------------------------------


def generate(scale: float, seed: int = SEED) -> Network:
    """A network with about as many rows as LDBC's of that scale factor, always the same one.

    At scale 1 these are about 9,900 persons, 180,000 friendships, a million posts and two million comments. Some
    persons have far more friends than others, and those write more; some tags are far more popular than others. Persons
    join all the time, so that there is ever more going on.
    """
    random = np.random.default_rng(seed)
    persons = max(20, round(9_900 * scale**0.81))
    joined = np.sort((DAYS * DAY * 0.9 * random.random(persons)).astype(np.int64))
    random.shuffle(joined)
    pairs = _pairs(random, persons, round(persons * 18.2 * scale**0.3))
    posts, comments = round(100 * persons * scale**0.06), round(207 * persons * scale**0.32)
    messages = _messages(random, joined, posts, comments)
    ids = np.arange(persons) * 7 + 3  # every tenth is divisible by ten, as the queries' filters want it
    messages = messages.set_column(3, "creator", pa.array(ids[messages["creator"].to_numpy()]))
    return Network(
        f"SNB-derived, generated, SF {scale:g}",
        pa.table({"id": ids, "first": [f"First{i % 997}" for i in ids], "last": [f"Last{i % 4999}" for i in ids]}),
        pa.table({"id": np.arange(TAGS), "name": [f"Tag{i}" for i in range(TAGS)]}),
        pa.table(
            {
                "person": ids[pairs[:, 0]],
                "friend": ids[pairs[:, 1]],
                "date": _after(random, np.maximum(joined[pairs[:, 0]], joined[pairs[:, 1]])),
            }
        ),
        messages,
        _message_tags(random, messages),
    )


def _popular(random: np.random.Generator, size: int, among: int) -> np.ndarray:
    """Numbers below ``among``, small ones far more often: their frequencies follow a power law (exponent 3)."""
    return (among * random.random(size) ** 2).astype(np.int64)


def _after(random: np.random.Generator, begin: np.ndarray) -> np.ndarray:
    """A date between each beginning and the end of the network, in microseconds since 1970."""
    since = begin + (random.random(len(begin)) * (DAYS * DAY - begin)).astype(np.int64)
    return since + FIRST_DAY.astype(np.int64)


def _pairs(random: np.random.Generator, persons: int, wanted: int) -> np.ndarray:
    """Distinct pairs of distinct persons."""
    wanted = min(wanted, persons * (persons - 1) // 4)
    found = np.empty(0, np.int64)
    while len(found) < wanted:
        ends = np.sort(np.stack([_popular(random, wanted, persons), _popular(random, wanted, persons)]), axis=0)
        codes = ends[0] * persons + ends[1]
        found = np.unique(np.concatenate([found, codes[ends[0] != ends[1]]]))
    chosen = random.permutation(found)[:wanted]
    return np.stack([chosen // persons, chosen % persons], axis=1)


def _messages(random: np.random.Generator, joined: np.ndarray, posts: int, comments: int) -> pa.Table:
    """Posts and comments by date; a comment replies to one of the thousand messages before it."""
    size = posts + comments
    creator = _popular(random, size, len(joined))
    date = _after(random, joined[creator])
    order = np.argsort(date, kind="stable")
    creator, date = creator[order], date[order]
    is_post = random.permutation(size) < posts
    is_post[0] = True
    ids = np.arange(size) * 3 + 1
    parent = np.arange(size) - 1 - (np.minimum(np.arange(size), 1_000) * random.random(size)).astype(np.int64)
    reply_of = pa.array(ids[np.maximum(parent, 0)], mask=is_post)
    lengths = random.integers(0, 40, size)
    content = pa.array(
        [f"{i} about {'x' * n}" if n else "" for i, n in zip(ids.tolist(), lengths.tolist(), strict=True)]
    )
    return pa.table({"id": ids, "date": date, "content": content, "creator": creator, "reply_of": reply_of})


def _message_tags(random: np.random.Generator, messages: pa.Table) -> pa.Table:
    """One post in six and two comments in five have tags: three on average, none of them twice."""
    is_post = messages["reply_of"].is_null().to_numpy()
    tagged = np.flatnonzero(random.random(len(is_post)) < np.where(is_post, 1 / 6, 2 / 5))
    rows = np.repeat(tagged, random.geometric(1 / 3, len(tagged)))
    codes = np.unique(rows * TAGS + _popular(random, len(rows), TAGS))
    return pa.table({"message": messages["id"].to_numpy()[codes // TAGS], "tag": codes % TAGS})


# --- updates ---------------------------------------------------------------------------------------------------------


def _updates(network: Network, days: int | None) -> dict[str, pa.Table]:
    """The tables with all that comes and goes, in one order: by time; what goes at a time goes before what comes."""
    rows = _rows(network)
    dates = np.concatenate([date for _, date in rows.values()])
    begin, end = int(dates.min()), int(dates.max())
    life = DAY * (days if days is not None else max(1, round((end - begin) / DAY / 5)))
    counts = [len(date) for _, date in rows.values()]
    table = np.repeat(np.arange(len(counts)), counts)
    row = np.concatenate([np.arange(n) for n in counts])
    leaves = dates + life <= end
    time = np.concatenate([dates, dates[leaves] + life])
    weight = np.concatenate([np.ones(len(dates), np.int8), np.full(int(leaves.sum()), -1, np.int8)])
    table, row = np.concatenate([table, table[leaves]]), np.concatenate([row, row[leaves]])
    order = np.lexsort((row, table, weight, time))
    at = np.empty(len(order), np.int64)
    at[order] = np.arange(len(order))
    found = _initial(network)
    for i, (name, (data, _)) in enumerate(rows.items()):
        mine = order[table[order] == i]
        changed = data.take(row[mine])
        found[name] = changed.append_column("_weight", pa.array(weight[mine])).append_column("_at", pa.array(at[mine]))
    return found


def _initial(network: Network) -> dict[str, pa.Table]:
    tables = {
        "person": network.persons.rename_columns(["p_personid", "p_firstname", "p_lastname"]),
        "tag": network.tags.rename_columns(["t_tagid", "t_name"]),
    }
    return {
        name: t.append_column("_weight", pa.array(np.ones(len(t), np.int8))).append_column(
            "_at", pa.array(np.full(len(t), BEFORE))
        )
        for name, t in tables.items()
    }


def _rows(network: Network) -> Mapping[str, tuple[pa.Table, np.ndarray]]:
    """The rows that come and go, as the tables have them, and their dates."""
    person, friend, since = (network.friendships[c].to_numpy() for c in ("person", "friend", "date"))
    knows = pa.table(
        {
            "k_person1id": np.stack([person, friend], axis=1).ravel(),
            "k_person2id": np.stack([friend, person], axis=1).ravel(),
            "k_creationdate": pa.array(np.repeat(since, 2)).cast(STAMP),
        }
    )
    messages = network.messages
    message = pa.table(
        {
            "m_messageid": messages["id"],
            "m_creationdate": messages["date"].cast(STAMP),
            "m_content": messages["content"],
            "m_creatorid": messages["creator"],
            "m_c_replyof": messages["reply_of"],
        }
    )
    ids, dates = messages["id"].to_numpy(), messages["date"].to_numpy()
    order = np.argsort(ids)
    tagged = dates[order[np.searchsorted(ids, network.message_tags["message"].to_numpy(), sorter=order)]]
    message_tag = network.message_tags.rename_columns(["mt_messageid", "mt_tagid"])
    return {"knows": (knows, np.repeat(since, 2)), "message": (message, dates), "message_tag": (message_tag, tagged)}
