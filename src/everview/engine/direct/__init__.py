"""The direct way of a batch: one call of the kernel, from the user's rows to the rows of feeds.

A batch goes this way as far as all that is to be done with it can be said in words; what cannot goes the other one,
with the same results. In the order in which a batch passes:

- ``columns``: types, and values, as the kernel numbers them; ``read``: a table's rows, read by the kernel;
- ``expressions``: expressions over words, as the kernel computes them;
- ``views``: what a table and a view do with a batch, described for the kernel when they are first changed: its
  ``cores``, which take rows in, and what follows them, plain ``rows``, ``groups``, or ``sets`` over several of these;
- ``plan``: which views the kernel runs when some tables change, in which order, and who else reads them;
- ``batch``: a batch on its way.
"""
