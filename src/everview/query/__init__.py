"""The query model and what can be said of a query by looking at it: classes, cores, orders, widths."""
