"""Ports on loopback. A node's transport port is its HTTP port plus 100."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Collection

from pincite.domain.errors import ConfigError, UserError

TRANSPORT_OFFSET = 100
_SEARCH_SPAN = 90


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:``port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Without it a port whose last connection is in TIME_WAIT looks taken; servers set it as well.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as exc:
            if exc.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    # Some systems let two programs bind the same port when one of them binds every address.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) != 0


def choose(
    wanted: int,
    nodes: int,
    *,
    fixed: bool,
    reserved: Collection[int] = (),
    free: Callable[[int], bool] = is_free,
) -> int:
    """The first of ``nodes`` consecutive HTTP ports.

    Args:
        wanted: The port asked for.
        nodes: How many nodes need one HTTP and one transport port each.
        fixed: Whether the user named it; then no other is taken.
        reserved: Ports that are free now but belong to others, such as the sidecar's.
        free: Tells whether a port is free.

    Raises:
        UserError: ``port_taken``, naming the port.
        ConfigError: ``port_taken`` when no port is free near the default one.
    """
    for first in (wanted,) if fixed else range(wanted, wanted + _SEARCH_SPAN):
        needed = [first + i for i in range(nodes)] + [first + TRANSPORT_OFFSET + i for i in range(nodes)]
        taken = [port for port in needed if not free(port) or (not fixed and port in reserved)]
        if not taken:
            return first
        if fixed:
            raise UserError(
                "port_taken",
                f"Port {taken[0]} on 127.0.0.1 is taken by another program; the embedded cluster needs "
                + ", ".join(str(port) for port in needed)
                + ".",
                mend="Name another port with --port, or end the program that listens there.",
                subject=str(taken[0]),
            )
    raise ConfigError(
        "port_taken",
        f"No {2 * nodes} free ports were found on 127.0.0.1 from {wanted} on.",
        mend="Name a free port with --port.",
        subject=str(wanted),
    )
