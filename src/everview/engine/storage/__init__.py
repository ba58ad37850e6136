"""A database as a file: saved, checked and loaded; and as a folder, in which it is durable.

- ``snapshot``: what is saved, in which order, and how it is put back, or views are filled anew where it does not fit;
- ``container``: the file: named sections with checksums, and a manifest; written beside its place, then put there;
- ``unit_state``: what the section of a unit of the kernel holds, table by table;
- ``check_saved``: whether what a file says can be true, before it is trusted;
- ``durable``: a folder with a snapshot and a log of what was done after it; ``log_file``: the log, record by record.
"""
