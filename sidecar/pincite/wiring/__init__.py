"""Composition root: settings to adapters to stages, and the composed flows."""
