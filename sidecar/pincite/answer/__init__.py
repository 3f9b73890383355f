"""The answer stages: render, generate, split, parse, validate. Pure but for the Protocols they are given."""
