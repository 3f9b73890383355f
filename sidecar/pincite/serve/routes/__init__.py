"""The routes, one file a concern. Each makes a blueprint from the shared ``Sidecar``."""
