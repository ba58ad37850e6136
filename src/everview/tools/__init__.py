"""Tools beside the engine: change logs and their replay, benchmarks, the oracle they compare with, and λ of a log."""
