"""The key of a job: who has it may talk to the processes of the job's shards.

The driver draws one when it first needs it. It travels with the stateful operator, in Spark's own closure, to the
workers, and from them to the processes that they start through a pipe: it is in no argument, environment or file.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from hmac import digest
from secrets import token_bytes


@cache
def job_key() -> bytes:
    """The key of all queries that this driver starts."""
    return token_bytes(32)


def tag(key: bytes, text: str) -> str:
    """A short name for something of the job's, which only those who have the key can know beforehand."""
    return digest(key, text.encode(), sha256).hex()[:16]
