package org.pincite.opensearch;

import org.opensearch.core.rest.RestStatus;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.rest.BaseRestHandler;
import org.opensearch.rest.BytesRestResponse;
import org.opensearch.rest.RestRequest;
import org.opensearch.transport.client.node.NodeClient;

import java.io.IOException;
import java.util.List;

/** {@code GET /_pincite/stats}: the counts of the node that is asked. */
final class StatsAction extends BaseRestHandler {
    private final HookStats stats;
    private final SidecarClient sidecar;

    StatsAction(HookStats stats, SidecarClient sidecar) {
        this.stats = stats;
        this.sidecar = sidecar;
    }

    @Override
    public String getName() {
        return "pincite_stats";
    }

    @Override
    public List<Route> routes() {
        return List.of(new Route(RestRequest.Method.GET, "/_pincite/stats"));
    }

    @Override
    protected RestChannelConsumer prepareRequest(RestRequest request, NodeClient client) {
        return channel -> {
            try (XContentBuilder json = channel.newBuilder()) {
                channel.sendResponse(new BytesRestResponse(RestStatus.OK, write(json, client.getLocalNodeId())));
            }
        };
    }

    private XContentBuilder write(XContentBuilder json, String node) throws IOException {
        json.startObject();
        json.field("node", node);
        json.field("in_flight", sidecar.inFlight());
        // By place in pincite.sidecar.urls: where the sidecar stands is nobody's business who may read counts.
        json.startObject("breakers");
        write(json, "rerank", sidecar.breakers(SidecarClient.RERANK));
        write(json, "legs", sidecar.breakers(SidecarClient.LEGS));
        json.endObject();
        stats.write(json);
        return json.endObject();
    }

    private static void write(XContentBuilder json, String route, List<Breaker.State> states) throws IOException {
        json.startArray(route);
        for (Breaker.State state : states) {
            json.value(state.code());
        }
        json.endArray();
    }
}
