package org.pincite.opensearch;

import org.opensearch.action.search.SearchResponse;
import org.opensearch.common.xcontent.XContentHelper;
import org.opensearch.core.common.bytes.BytesReference;
import org.opensearch.core.xcontent.MediaType;
import org.opensearch.core.xcontent.MediaTypeRegistry;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.search.SearchHit;
import org.opensearch.search.SearchHits;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;

/** Takes the token codes, the vector and the centroids off hits: they are for the sidecar and no client. */
final class Codes {
    static final List<String> FIELDS = List.of("tokens", "vector", "centroids");

    private Codes() {}

    /**
     * Takes them off every hit, and every inner hit, of an index that is Pincite's.
     *
     * @throws IOException when a source can't be read; that hit then has no source
     */
    static void strip(SearchResponse response, Predicate<String> isPincite) throws IOException {
        for (SearchHit hit : response.getHits().getHits()) {
            if (hit.getIndex() != null && hit.getClusterAlias() == null && isPincite.test(hit.getIndex())) {
                strip(hit);
            }
        }
    }

    private static void strip(SearchHit hit) throws IOException {
        for (String field : FIELDS) {
            hit.removeDocumentField(field);
        }
        // The source of a nested hit is a part of the document, where these names mean something else.
        if (hit.getNestedIdentity() == null && hit.getSourceRef() != null) {
            hit.sourceRef(without(hit));
        }
        if (hit.getInnerHits() != null) {
            for (SearchHits inner : hit.getInnerHits().values()) {
                for (SearchHit innerHit : inner.getHits()) {
                    strip(innerHit);
                }
            }
        }
    }

    @SuppressWarnings("deprecation") // There is no other way to tell a stored source's format.
    private static BytesReference without(SearchHit hit) throws IOException {
        BytesReference source = hit.getSourceRef();
        // Until it is known to hold nothing of them, there is none.
        hit.sourceRef(null);
        MediaType type = MediaTypeRegistry.xContentType(source);
        Map<String, Object> map = XContentHelper.convertToMap(source, true, type).v2();
        if (map.keySet().removeAll(FIELDS) == false) {
            return source;
        }
        try (XContentBuilder builder = XContentBuilder.builder(type.xContent())) {
            return BytesReference.bytes(builder.map(map));
        }
    }
}
