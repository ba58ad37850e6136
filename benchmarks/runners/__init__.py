"""One program a system, each run in a process of its own: ``python -m benchmarks.runners.<system> <job.json>``."""
