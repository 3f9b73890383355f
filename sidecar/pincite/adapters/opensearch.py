"""The cluster, over opensearch-py: one request function, every failure turned into our errors.

Each request may carry its caller's ``Authorization``; without one the configured account is used.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from opensearchpy import OpenSearch
from opensearchpy import exceptions as os_errors

from pincite.domain.errors import ConfigError, NotFound, PinciteError, UpstreamError

# opensearch-py warns of each 404, and to ask whether a document exists is no fault.
logging.getLogger("opensearch").setLevel(logging.ERROR)


class VersionConflict(Exception):
    """A compare-and-set write lost: someone else wrote the document first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAddress:
    """How to reach a cluster. ``api_token`` is sent as a bearer token."""

    url: str
    user: str | None = None
    password: str | None = None
    api_token: str | None = None
    ca: Path | None = None
    timeout_s: float = 30.0


class Cluster:
    """A client of one cluster; thread-safe.

    Raises:
        ConfigError: ``cluster_ca_unreadable``, ``cluster_url_invalid``.
    """

    def __init__(self, address: ClusterAddress) -> None:
        self.url, valid = shown_url(address.url)
        if not valid:
            raise ConfigError(
                "cluster_url_invalid",
                f"{self.url!r} is not an http or https URL.",
                mend="Set PINCITE_OPENSEARCH__URL to something like https://search.example.org:9200.",
                subject="PINCITE_OPENSEARCH__URL",
            )
        options: dict[str, Any] = {
            "timeout": address.timeout_s,
            "max_retries": 0,
            "http_compress": False,
            "pool_maxsize": 16,
        }
        if address.api_token:
            options["headers"] = {"authorization": f"Bearer {address.api_token}"}
        elif address.user is not None:
            options["http_auth"] = (address.user, address.password or "")
        if address.url.startswith("https://"):
            try:
                options["ssl_context"] = ssl.create_default_context(cafile=str(address.ca) if address.ca else None)
            except (OSError, ssl.SSLError) as exc:
                raise ConfigError(
                    "cluster_ca_unreadable",
                    f"The certificate authority file {address.ca} cannot be used: {exc}",
                    mend="Set PINCITE_OPENSEARCH__CA to a readable PEM file.",
                    subject="PINCITE_OPENSEARCH__CA",
                ) from exc
        self._client = OpenSearch(address.url, **options)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        caller: str | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """One request; the parsed JSON of the response.

        Raises:
            NotFound: HTTP 404.
            VersionConflict: HTTP 409.
            ConfigError: not authorised.
            UpstreamError: everything else; ``retryable`` for what may pass.
        """
        # Lower case: opensearch-py keys the account that way, and two spellings would send both.
        headers = {"authorization": caller} if caller else None
        query: dict[str, Any] = dict(params or {})
        if timeout_s is not None:
            query["request_timeout"] = timeout_s
        try:
            return self._client.transport.perform_request(method, path, params=query, body=body, headers=headers)
        except os_errors.TransportError as exc:
            raise self._translated(exc, method, path) from exc
        except (os_errors.SerializationError, AttributeError) as exc:
            # AttributeError: opensearch-py expects an object as the body of an error, and gets something else.
            raise UpstreamError(
                "cluster_bad_reply",
                f"The server at {self.url} did not answer as OpenSearch does.",
                mend="Check that PINCITE_OPENSEARCH__URL names an OpenSearch cluster.",
                subject=self.url,
            ) from exc

    def bulk(self, lines: Iterable[Mapping[str, Any]], *, refresh: str = "false") -> list[dict[str, Any]]:
        """A ``_bulk`` of ready lines. The items of the response, one per action.

        Raises:
            UpstreamError: the request as a whole failed. Item errors are the caller's to read.
        """
        reply = self.request("POST", "/_bulk", ndjson(lines), params={"refresh": refresh}, timeout_s=120)
        return [next(iter(item.values())) for item in reply["items"]]

    def info(self, *, timeout_s: float | None = None) -> dict[str, Any]:
        """Name and version of the cluster."""
        return dict(self.request("GET", "/", timeout_s=timeout_s))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _translated(self, exc: os_errors.TransportError, method: str, path: str) -> Exception:
        if isinstance(exc, os_errors.ConnectionTimeout):
            return UpstreamError(
                "cluster_timeout",
                f"The cluster at {self.url} did not answer in time.",
                mend="Try again; raise PINCITE_OPENSEARCH__TIMEOUT_S if it is a large cluster.",
                subject=self.url,
                retryable=True,
            )
        if isinstance(exc, os_errors.SSLError):
            return ConfigError(
                "cluster_tls",
                f"The cluster at {self.url} could not be trusted: {exc.error}",
                mend="Set PINCITE_OPENSEARCH__CA to the certificate authority of the cluster.",
                subject=self.url,
            )
        if isinstance(exc, os_errors.ConnectionError):
            return UpstreamError(
                "cluster_unreachable",
                f"No cluster answers at {self.url}.",
                mend="Start it (`pincite cluster up` for the embedded one) or set PINCITE_OPENSEARCH__URL.",
                subject=self.url,
                retryable=True,
            )
        kind, reason = error_of(exc.info)
        status = exc.status_code if isinstance(exc.status_code, int) else 0
        return error_by_status(status, kind, reason, url=self.url, what=f"{method} {path}")


def shown_url(url: str) -> tuple[str, bool]:
    """The URL without user and password, for people; and whether it is one that can be asked."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return url.rsplit("@", 1)[-1], False
    netloc = parts.netloc.rsplit("@", 1)[-1]
    shown = urlunsplit((parts.scheme, netloc, parts.path, "", ""))
    return shown, parts.scheme in ("http", "https") and bool(host) and port != 0


def ndjson(lines: Iterable[Mapping[str, Any]]) -> str:
    """Lines as newline-delimited JSON, the last one terminated too."""
    return "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)


def error_by_status(status: int, kind: str, reason: str, *, url: str, what: str) -> Exception:
    """The error for an HTTP status and an OpenSearch error type and reason."""
    blocked = blocked_error(kind, reason, url)
    if blocked is not None:
        return blocked
    if status == 404:
        if kind == "index_not_found_exception":
            return NotFound(
                "index_missing",
                f"An index that Pincite needs is missing: {reason}",
                mend="Run `pincite init`.",
                subject=url,
            )
        return NotFound("document_missing", f"The cluster has nothing at {what}.", subject=what)
    if status == 409:
        return VersionConflict(reason)
    if status in (401, 403):
        return ConfigError(
            "cluster_forbidden" if status == 403 else "cluster_unauthorized",
            f"The cluster at {url} refused the request {what}: {reason}",
            mend="Check PINCITE_OPENSEARCH__USER/__PASSWORD or __API_TOKEN, and the rights of that account.",
            subject=url,
        )
    if status in (429, 502, 503, 504):
        return UpstreamError(
            "cluster_busy", f"The cluster at {url} is busy: {reason}", subject=url, retryable=True
        )
    return UpstreamError(
        "cluster_error",
        f"The cluster at {url} failed at {what} with {status} {kind}: {reason}",
        subject=url,
        detail={"status": status, "type": kind},
    )


def blocked_error(kind: str, reason: str, url: str) -> PinciteError | None:
    """The error for a write block, or None for any other reason."""
    if kind != "cluster_block_exception":
        return None
    if "SERVICE_UNAVAILABLE" in reason:
        # No manager yet, or state not recovered: this passes by itself.
        return UpstreamError(
            "cluster_busy", f"The cluster at {url} is not ready: {reason}", subject=url, retryable=True
        )
    return UpstreamError(
        "cluster_read_only",
        f"The cluster at {url} does not accept writes: {reason}",
        mend="Free disk space or lift the block (`index.blocks.write`, `read_only`), then run it again: "
        "what was written stays, the rest resumes.",
        subject=url,
    )


def error_of(info: Any) -> tuple[str, str]:
    """(type, reason) of an OpenSearch error body, whatever shape it has."""
    error = info.get("error") if isinstance(info, Mapping) else None
    if isinstance(error, Mapping):
        causes = error.get("root_cause") or [error]
        cause = causes[0] if isinstance(causes[0], Mapping) else error
        deeper = error.get("caused_by") or {}
        reason = str(cause.get("reason") or error.get("reason") or "")
        if deeper.get("reason") and deeper["reason"] not in reason:
            reason = f"{reason} ({deeper['reason']})"
        return str(cause.get("type") or error.get("type") or ""), reason
    return "", str(error or info or "no reason given")[:500]
