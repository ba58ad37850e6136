"""Between Spark's rows and shards: rows are routed and packed on the way in, changes unpacked on the way out.

- ``routing``: which shards a row goes to, by hashes of its values;
- ``pack``: a DataFrame of changes becomes blobs, thousands of rows each, one or more a shard;
- ``arrow_blob``: what a blob is; ``shard_specs``: the shards of a step, as the workers are told of them;
- ``key_step``: where no shard alone could keep one row a key, a step of its own before the shards;
- ``forward``: from such a step, and from one that makes stages ahead, its rows go on to the next;
- ``unpack``: blobs and files of changes become the rows of the change feed.
"""
