"""What is run for the tables and plots of docs/performance-tables.md, and how they are made."""

from __future__ import annotations

from benchmarks.experiments.base import Experiment
from benchmarks.experiments.breakeven import BREAKEVEN
from benchmarks.experiments.enclosing import ENCLOSURENESS
from benchmarks.experiments.latency import LATENCY
from benchmarks.experiments.load import LOAD
from benchmarks.experiments.memory import MEMORY
from benchmarks.experiments.profile import PROFILE
from benchmarks.experiments.runtime import RUNTIME
from benchmarks.experiments.shards import SHARDS
from benchmarks.experiments.start import START
from benchmarks.experiments.sweeps import SCALE, SELECTIVITY

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (RUNTIME, LATENCY, MEMORY, BREAKEVEN, ENCLOSURENESS, SELECTIVITY, SCALE, LOAD, SHARDS, PROFILE, START)
}
"""In the order in which they are run and shown."""

ON_REQUEST = ("breakeven", "selectivity", "scale", "load", "profile")
"""Run by name alone: they say where the others' figures come from, and change little from one version to the next."""
