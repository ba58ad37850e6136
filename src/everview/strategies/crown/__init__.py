"""CROWN: change propagation without joins, as programs (crown.md)."""

from everview.strategies.crown.compile import CrownProgram, Entry, Occurrence, compile_crown

__all__ = ["CrownProgram", "Entry", "Occurrence", "compile_crown"]
