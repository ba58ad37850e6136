"""The model that all floors share, and what can be said of a query by looking at it, without data.

In the order in which a view passes through:

- ``types``, ``terms``, ``schema``, ``aggregates``, ``options``: columns, expressions, tables, what a user may ask for;
- ``clock``: what can be said of now(), and when that holds;
- ``conjunctive``, ``view``, ``column_expression``: atoms and conjunctive queries, blocks and whole views, expressions;
- ``null_safe``, ``totals``: columns that are equal, NULL included; groups beside the rows that they are made of;
- ``data_values``, ``order_data``: values and orders as plain data;
- ``catalogue``, ``data``, ``formula_data``, ``show``: what a database holds, models as plain data, queries in words;
- ``homomorphism``, ``constraints``, ``chase``: the same query, made smaller, or better by keys and foreign keys;
- ``hypergraph``, ``hierarchy``, ``orders``, ``covers``, ``widths``, ``dependencies``, ``decomposition``,
  ``unions``, ``hard_patterns``, ``fracture``: its structure;
- ``formula``, ``formula_facts``, ``formula_normal``, ``locality``, ``formula_limits``: first-order formulas that count,
  the rows that they ask for, the same written so that little has to be looked at, how far that is, and whether it is
  allowed;
- ``classify``: the verdict of all of these on one conjunctive query.
"""
