"""Fusion and reranking."""
