"""Numeric kernels; reference.py is the definition, every fast path has a parity test."""
