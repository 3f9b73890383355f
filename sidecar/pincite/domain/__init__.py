"""Frozen types, ids, errors and Protocols. Standard library only."""
