"""Adapters: the only code that talks to the world outside (cluster, models, files, broker, LLM servers)."""
