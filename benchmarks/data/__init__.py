"""The logs that the benchmarks run over: from files, or generated with a fixed seed."""
