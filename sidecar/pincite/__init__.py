"""Pincite: cited answers from the search cluster you already run."""

__version__ = "0.1.0"
