"""Values as the kernel keeps them: 64-bit words, and rows of words on their way through the engine.

- ``words``: an array of values of one type as words, and back; NULL is one reserved word;
- ``nested``: arrays, structs and maps as bytes, and back;
- ``dictionary``: strings and other wide values have numbers, counted by their uses;
- ``rows``: changes of a relation and deltas of a view: columns of words, a weight a row, the update it came from;
- ``wide``: exact numbers of several words, a column for each word; products, and back to BIGINT and decimals.
"""
