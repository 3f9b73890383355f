"""Conformance tests for third-party parts."""
