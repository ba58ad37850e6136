"""What a batch changed in a shard's views, on its way out of the shard's process.

- ``change_buffer``: changes as they come: in memory while they are few, in a file from then on;
- ``spill_file``: that file, which the worker that unpacks it reads and removes;
- ``address``: where the changes go: to the feed, or on to the shards of a second step, cut by these.
"""
