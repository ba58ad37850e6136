"""The census: queries of first-order logic with counting over data in which every element has few neighbours.

It is no program for the kernel's machine: balls, types and a registry that grows are not tables and steps. So it is a
module of its own beside it, and plain Python says what the compiled one must do:

- `program` is a query as it comes in, with radii and what else follows from its shape; `faults` is what is refused;
- `structure` keeps the facts and the domain, and takes neighbourhoods out of them;
- `registry` tells types apart, by colours and by isomorphism;
- `evaluator` counts elements by type, and says whether a formula holds;
- `results` keeps answers of sentences and unary queries, with their differences, `pairs` those of binary ones;
- `listing` lists rows;
- `reference` puts them together: a batch comes in, and the answer is kept up to date;
- `machine` does all of this in C++ (`cpp/census/`).
"""
