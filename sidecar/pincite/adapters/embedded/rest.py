"""A few reads from a node on loopback, with the standard library alone."""

from __future__ import annotations

import http.client
import json
from typing import Any


def get_json(port: int, path: str, *, timeout_s: float = 5.0) -> Any | None:
    """GET from 127.0.0.1; never through a proxy.

    Args:
        port: HTTP port.
        path: Path and query.
        timeout_s: Limit for the connection and for each read.

    Returns:
        The parsed body whatever the status, or None when nothing answered with JSON.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        return json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
