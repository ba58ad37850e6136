"""What a query's checkpoint folder holds of ours, and how a query that is started again goes by it.

- ``identity``: what state belongs to, as plain data; ``pins``: what of the plan is held fast, so that rows stay put;
- ``folder``: the folder, wherever it is, read and written on the driver;
- ``migration``: the tables' rows out of an old checkpoint; ``take_over``: other views in the place of old ones.
"""
