"""From a query to a plan: join trees, bags, bounds, the strategy that fits, and the explanation of all of it."""
