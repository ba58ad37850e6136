"""What users call: the embedded database, its tables, views, feeds and snapshots, and the verdict on a view."""
