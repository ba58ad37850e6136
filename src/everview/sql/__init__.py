"""The front ends: SQL (Spark's dialect) and Datalog-like rules, lowered into the query model."""

from everview.sql.rules import parse_rules
from everview.sql.script import parse_script
from everview.sql.statements import parse_schema, parse_view

__all__ = ["parse_rules", "parse_schema", "parse_script", "parse_view"]
