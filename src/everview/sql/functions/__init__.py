"""The functions of Spark SQL that a view may call, one entry each; a further one is an entry here and nothing else.

What passes through, in this order:

- ``entry`` says what an entry is: names, parameters, type of the result, examples, and how DuckDB computes it;
- ``text``, ``patterns``, ``codes``, ``addresses``, ``numbers``, ``numerals``, ``times``, ``moments`` and ``choices``
  hold the entries, beside what spells them out, as do ``elements``, ``arrays``, ``lambdas`` and ``maps`` those of
  nested values;
- ``documents`` and ``from_json`` have those of text that is JSON, ``intervals`` those of lengths of time;
- ``conversions`` has casts, as functions and as CAST, which others of them use;
- ``registry`` has all of them by name: it checks calls (``call_type``) and spells them out for DuckDB (``spelled``);
- ``aggregated`` has what DuckDB is taught for aggregates (``query/aggregates.py``);
- ``elsewhere`` names what Spark has beside them, to be refused by what it is.
"""
