package org.pincite.opensearch;

import java.util.Locale;

/** Why a search was not, or not wholly, reranked: the closed list of {@code contracts/schemas/ext_pincite.schema.json}. */
enum Reason {
    NO_QUERY_TEXT(Status.SKIPPED),
    INDEX_NOT_PINCITE(Status.SKIPPED),
    NO_HITS(Status.SKIPPED),
    SIZE_ZERO(Status.SKIPPED),
    SORTED(Status.SKIPPED),
    SCROLL(Status.SKIPPED),
    SEARCH_AFTER(Status.SKIPPED),
    WINDOW_TOO_LARGE(Status.SKIPPED),
    NOT_WIDENED(Status.SKIPPED),
    DUPLICATE_IDS(Status.SKIPPED),
    DISABLED(Status.SKIPPED),
    SIDECAR_NOT_CONFIGURED(Status.SKIPPED),
    SIDECAR_UNREACHABLE(Status.UNAVAILABLE),
    SIDECAR_TIMEOUT(Status.UNAVAILABLE),
    SIDECAR_OVERLOADED(Status.UNAVAILABLE),
    BREAKER_OPEN(Status.UNAVAILABLE),
    SIDECAR_ERROR(Status.UNAVAILABLE),
    SIDECAR_UNAUTHORIZED(Status.UNAVAILABLE),
    CONTRACT_MISMATCH(Status.UNAVAILABLE),
    BAD_REPLY(Status.UNAVAILABLE),
    TOKENS_MISSING(Status.PARTIAL),
    INTERNAL_ERROR(Status.UNAVAILABLE);

    private final Status status;

    Reason(Status status) {
        this.status = status;
    }

    /** Returns the status that goes with this reason. */
    Status status() {
        return status;
    }

    /** Returns the word used on the wire. */
    String code() {
        return name().toLowerCase(Locale.ROOT);
    }

    /**
     * Finds a reason by its word on the wire.
     *
     * @throws IllegalArgumentException when there is none of that name
     */
    static Reason of(String code) {
        for (Reason reason : values()) {
            if (reason.code().equals(code)) {
                return reason;
            }
        }
        throw new IllegalArgumentException("unknown reason");
    }
}
