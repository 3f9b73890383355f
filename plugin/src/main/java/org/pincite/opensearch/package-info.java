/**
 * The hook: two search pipeline processors that let the Pincite sidecar rerank the hits of an ordinary search.
 *
 * <p>{@link org.pincite.opensearch.WindowProcessor} widens the search to the first K1 hits and remembers what the
 * client asked; {@link org.pincite.opensearch.RerankProcessor} sends those hits to the sidecar, reorders them and cuts
 * the client's page. Whatever goes wrong, the client gets the hits of its own search in their own order, with
 * {@code ext.pincite} saying why.
 */
package org.pincite.opensearch;
