package org.pincite.opensearch;

import org.opensearch.action.search.SearchRequest;

import java.lang.reflect.Method;

/**
 * Recognises the part of a cross-cluster search that another cluster sends here.
 *
 * <p>That cluster merges our hits with its own by score, so their order must stay; and it need not have this plugin,
 * so it could not read {@code ext.pincite} off the wire. Such a search is left wholly alone. OpenSearch keeps the mark
 * of it, the alias that the other cluster gave this one, to its own package.
 */
final class SubSearch {
    private static final Method ALIAS = alias();

    private SubSearch() {}

    private static Method alias() {
        try {
            Method method = SearchRequest.class.getDeclaredMethod("getLocalClusterAlias");
            method.setAccessible(true);
            return method;
        } catch (ReflectiveOperationException | RuntimeException e) {
            return null;
        }
    }

    /** Returns true when another cluster sent the search; false also when that can't be told. */
    static boolean isOne(SearchRequest request) {
        try {
            return ALIAS != null && ALIAS.invoke(request) != null;
        } catch (ReflectiveOperationException e) {
            return false;
        }
    }
}
