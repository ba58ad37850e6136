"""From the model of a view to its plan, by strategies that are asked and not known by name.

What passes through, in this order:

- ``rewrite``: joins that keys and foreign keys make superfluous go;
- ``small_domains``: a block becomes a union over the values of CHECK … IN, if that gives a better class;
- ``cores``: a block becomes the conjunctive queries, cores, that maintain it;
- ``core_plan``: each core is judged by all strategies, and planned by the first that fits; what that costs;
- ``unions``: the classes of a union of queries, and how its members come together;
- ``union_order``: the order in which members and their intersections are kept, for positions;
- ``set_operations``: what set operations do with the rows of their sides;
- ``ordering``: what cuts and window functions do and cost;
- ``part_plan``: the plans of the blocks of a stage, or of the view's own;
- ``view_plan``: the plans of all blocks and stages of a view together, with their bounds;
- ``formula_plan``: the same of a view by formula, whose result is a part without cores;
- ``reads``: what each kind of read costs as the view is kept;
- ``read_off``: which base rows a row says itself that it is made of;
- ``hardness``, ``repair``: why nothing better is possible, and which change would make it so;
- ``explain``, ``text``, ``svg``: the verdict as data, as text and as a picture;
- ``held_values``, ``spread``, ``shares``, ``shards``, ``weigh``, ``split``, ``ahead``, ``compared``,
  ``formula_shards``, ``distribute``, ``shard_tables``, ``placement``: how it is spread over Spark's shards.
"""
