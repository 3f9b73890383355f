"""Evaluations and the demo, runnable by anyone."""
