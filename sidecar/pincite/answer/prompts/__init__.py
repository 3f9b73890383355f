"""Prompts: jinja2 templates, each with a TOML header in its first comment."""
