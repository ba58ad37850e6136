"""What strategies' programs are made of and go through, between the strategies that write them and the kernel.

- `optimise` rewrites a program into one that does the same in fewer steps.
"""
