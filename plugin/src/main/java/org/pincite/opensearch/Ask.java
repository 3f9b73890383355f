package org.pincite.opensearch;

/** What the window processor tells the rerank processor of the same search. */
sealed interface Ask {
    /** The attribute of the pipeline's context that holds it. */
    String ATTRIBUTE = "pincite.ask";

    /**
     * The search was left as the client sent it.
     *
     * @param message one sentence for people, or null
     */
    record Skipped(Reason reason, String message) implements Ask {}

    /**
     * The search was widened; the client's page has still to be cut.
     *
     * @param from the client's {@code from}
     * @param size the client's {@code size}
     * @param wantsVersion whether the client asked for {@code seq_no_primary_term} itself
     * @param window how many hits to rerank (K1)
     * @param query the text to rerank by
     */
    record Widened(int from, int size, boolean wantsVersion, int window, String query) implements Ask {}

    /** The rerank processor has done its work; a second one in the pipeline has nothing to do. */
    record Done() implements Ask {}
}
