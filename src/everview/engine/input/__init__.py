"""The way into a table: what users hand over becomes columns of exactly the table's types, or is refused.

In the order in which rows pass:

- ``read``: the whole way, for rows to insert, delete or upsert, and for changes;
- ``to_columns``: tuples, dicts, or what speaks Arrow, taken apart into columns; ``from_file``: the same from a file;
- ``all_refused``: the columns one by one, with all rows that one of them is refused for;
- ``from_python``, ``from_arrow``: a column of Python's or Arrow's values in the table's type, each value exactly;
- ``from_nested``: Python's lists and dicts, part by part;
- ``date_range``: the days and instants that there are;
- ``rejection``: how a value is refused: where it is, what it is, what its column wants.
"""
