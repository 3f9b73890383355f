"""Who may call. The sidecar's token guards the sidecar; ``Authorization`` of a gateway call is the caller's."""

from __future__ import annotations

import hmac

from flask import request

from pincite.serve.problems import Unauthorized

TOKEN_HEADER = "Pincite-Token"  # noqa: S105  # the header's name


class Guard:
    """Checks the sidecar's token, in constant time.

    Args:
        token: The token, or None when the sidecar has none (loopback only).
    """

    def __init__(self, token: str | None) -> None:
        self._token = token.encode() if token else None

    def knows_caller(self) -> bool:
        """The request carries the token in either header, or there is none to carry."""
        return self._token is None or self._by_bearer() or self._by_header()

    def require_bearer(self) -> None:
        """Ask for the token as a bearer token.

        Raises:
            Unauthorized: ``token_missing`` or ``token_wrong``.
        """
        if self._token is not None and not self._by_bearer():
            raise self._refusal("Authorization", "Authorization: Bearer")

    def cluster_caller(self) -> str | None:
        """Ask for the token on a route that acts on the cluster as the caller.

        Returns:
            The caller's ``Authorization`` for the cluster; None when there is none, or when it was the
            sidecar's own token: then the sidecar acts with its own credentials.

        Raises:
            Unauthorized: ``token_missing`` or ``token_wrong``.
        """
        authorization = request.headers.get("Authorization") or None
        if self._token is None:
            return authorization
        if self._by_bearer():
            return None
        if self._by_header():
            return authorization
        raise self._refusal(TOKEN_HEADER, TOKEN_HEADER)

    def _matches(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    def _by_bearer(self) -> bool:
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self._matches(credentials.strip())

    def _by_header(self) -> bool:
        return self._matches(request.headers.get(TOKEN_HEADER, ""))

    @staticmethod
    def _refusal(header: str, shown: str) -> Unauthorized:
        code = "token_wrong" if request.headers.get(header) else "token_missing"
        return Unauthorized(
            code,
            f"The sidecar's token is {'wrong' if code == 'token_wrong' else 'missing'}.",
            mend=f"Send the value of PINCITE_SIDECAR__TOKEN as {shown}.",
            subject=header,
        )
