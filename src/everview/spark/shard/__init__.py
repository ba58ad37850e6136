"""A shard: Spark's stateful operator, and the process beside it that holds the shard's database between batches.

In the order in which a batch passes:

- ``operator``: what Spark runs, one key a shard; ``state``: the durable base rows, in Spark's state store;
- ``client``: finds or starts the shard's process; ``sockets``, ``job_key``, ``channel``: where, and who may talk to it;
- ``messages``, ``wire``: what they say to each other, and how that travels;
- ``server``: the process; ``shard``: the database in it, its rows and its views;
- ``output``: what changed, on its way out; ``stopping``: what is cleared away when the query ends.
"""
