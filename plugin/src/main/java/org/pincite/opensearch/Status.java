package org.pincite.opensearch;

import java.util.Locale;

/** What became of a search, as {@code ext.pincite.status} says it. */
enum Status {
    /** Every candidate was reranked. */
    APPLIED,
    /** Reranked, but some candidates kept their first-stage place. */
    PARTIAL,
    /** Not a search to rerank; nothing failed. */
    SKIPPED,
    /** It should have been reranked, but could not be. */
    UNAVAILABLE;

    /** Returns the word used on the wire. */
    String code() {
        return name().toLowerCase(Locale.ROOT);
    }

    /**
     * Finds a status by its word on the wire.
     *
     * @throws IllegalArgumentException when there is none of that name
     */
    static Status of(String code) {
        for (Status status : values()) {
            if (status.code().equals(code)) {
                return status;
            }
        }
        throw new IllegalArgumentException("unknown status");
    }
}
