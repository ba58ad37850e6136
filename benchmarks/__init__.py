"""Benchmarks: each checks its results, and none is a timed test."""
