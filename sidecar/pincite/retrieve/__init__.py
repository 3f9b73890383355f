"""From a question to first-stage candidates: legs, filters."""
