"""A strategy for the tests, as small as one can be: the whole result is stored, and changed by delta joins.

The test copies this folder beside ``crown`` and adds its name to ``FOLDERS``; nothing else knows of it.
"""

from everview.strategies.stored_result.strategy import StoredResult

STRATEGY = StoredResult()

__all__ = ["STRATEGY"]
