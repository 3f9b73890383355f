package org.pincite.opensearch;

/** Why a rerank came to nothing: a reason of the closed list and one sentence without query or passage text. */
final class HookException extends Exception {
    private static final long serialVersionUID = 1L;

    private final Reason reason;

    HookException(Reason reason, String message) {
        super(message);
        this.reason = reason;
    }

    Reason reason() {
        return reason;
    }
}
