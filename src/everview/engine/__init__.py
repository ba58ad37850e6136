"""What users call: today the verdict on a view, later the embedded database."""
