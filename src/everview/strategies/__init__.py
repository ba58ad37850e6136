"""Maintenance strategies: each turns a planned core into a program."""
