#!/usr/bin/env bash
# Puts the sidecar's token into the node's keystore, then hands over to the image's own entrypoint.
set -euo pipefail
home=/usr/share/opensearch

if [ -n "${PINCITE_SIDECAR__TOKEN:-}" ]; then
  [ -f "$home/config/opensearch.keystore" ] || "$home/bin/opensearch-keystore" create
  printf '%s' "$PINCITE_SIDECAR__TOKEN" | "$home/bin/opensearch-keystore" add --stdin --force pincite.sidecar.token
  unset PINCITE_SIDECAR__TOKEN
fi
exec "$home/opensearch-docker-entrypoint.sh" "$@"
