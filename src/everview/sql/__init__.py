"""The front ends: Spark SQL, rules and formulas as text, read into the model of ``query``.

What passes through, in this order:

- ``parse``, ``dialect``, ``sql_text``: text becomes sqlglot's tree, in which every place is known;
- ``written_out``: what Spark means by other words;
- ``statements``, ``ddl``, ``script``, ``session``, ``options``, ``answer``: what each statement asks for;
- ``select``, ``fromclause``, ``one_row``, ``grouping``, ``grouping_sets``, ``conditions``, ``semijoin``, ``body``:
  a query becomes blocks and stages;
- ``outerjoin``, ``subqueries``, ``only_value``, ``over_nothing``, ``nested``, ``domain``, ``carried``, ``beside``,
  ``overgroups``, ``listed_subqueries``, ``apart``: so do outer and anti joins, and subqueries in expressions;
- ``ordering``, ``windows``, ``window_frames``, ``window_totals``, ``window_cuts``: ORDER BY … LIMIT, window functions,
  their frames, those over whole partitions, and ROW_NUMBER() <= k;
- ``pivot``: PIVOT and UNPIVOT; ``listed_names``: outputs that name earlier ones;
- ``exploding``: rows once for each element of an array;
- ``spans``, ``durations``: windows of time, and how long they are; ``clock``: conditions on now();
- ``names``, ``check``, ``parts``, ``datatypes``, ``literals``, ``padding``, ``functions``: names and types;
- ``aggregates``, ``packing``, ``products``: what groups are asked for, of what, and what can be summed up by table;
- ``refuse``, ``blockers``, ``limits``, ``chains``, ``render``: what is not supported, or too large, is refused with its
  place;
- ``lark_tokens``, ``rules``, ``rule_syntax``, ``rule_lowering``, ``rule_nested``, ``rule_tree``: the second front end,
  in place of all these, read by lark;
- ``formula_syntax``, ``formula_binding``: formulas that count, read by lark, too, over the tables of a schema;
- ``formula_columns``, ``formula_rows``, ``formula_counts``, ``formula_select``: SELECTs that are to be formulas;
- ``formula_components``: what a formula's tables promise of components, and how that is checked;
- ``meaning``, ``aggregate_spelling``, ``nodes``, ``macros``, ``expansion``, ``sizes``, ``duckdb``, ``duckdb_errors``:
  expressions for DuckDB;
- ``column_expressions``, ``word_expressions``, ``fallible``: which of them Arrow computes, which the kernel, and which
  may fail on data.
"""

from everview.sql.rules import parse_rules
from everview.sql.script import parse_script
from everview.sql.statements import parse_schema, parse_view

__all__ = ["parse_rules", "parse_schema", "parse_script", "parse_view"]
