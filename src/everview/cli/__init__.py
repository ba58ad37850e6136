"""The ``everview`` command."""
