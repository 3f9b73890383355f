package org.pincite.opensearch;

import org.opensearch.core.xcontent.XContentBuilder;

import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;

/** What this node's hook did since the node started. Counts only: no query, no id. */
final class HookStats {
    /** Upper ends of the classes of a latency, in milliseconds; the last class is open. */
    private static final int[] BOUNDS_MS = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000 };

    private final LongAdder[] statuses = adders(Status.values().length);
    private final LongAdder[] reasons = adders(Reason.values().length);
    private final Map<String, Latency> calls = new ConcurrentHashMap<>();
    private final Map<String, Latency> legs = new ConcurrentHashMap<>();
    private final Map<String, LongAdder> legReasons = new ConcurrentHashMap<>();

    private static LongAdder[] adders(int n) {
        LongAdder[] adders = new LongAdder[n];
        Arrays.setAll(adders, i -> new LongAdder());
        return adders;
    }

    private static final class Latency {
        private final LongAdder[] counts = adders(BOUNDS_MS.length + 1);

        void add(long nanos) {
            int at = 0;
            while (at < BOUNDS_MS.length && nanos > TimeUnit.MILLISECONDS.toNanos(BOUNDS_MS[at])) {
                at++;
            }
            counts[at].increment();
        }

        /** Writes the count and, for three quantiles, the upper end of the class where each lies. */
        void write(XContentBuilder json) throws IOException {
            long[] n = Arrays.stream(counts).mapToLong(LongAdder::sum).toArray();
            long total = Arrays.stream(n).sum();
            json.field("count", total);
            for (int percent : new int[] { 50, 95, 99 }) {
                Integer bound = null;
                long seen = 0;
                for (int i = 0; i < BOUNDS_MS.length && total > 0; i++) {
                    seen += n[i];
                    if (seen * 100 >= total * percent) {
                        bound = BOUNDS_MS[i];
                        break;
                    }
                }
                json.field("p" + percent + "_at_most_ms", bound);
            }
            json.startObject("at_most_ms");
            for (int i = 0; i < n.length; i++) {
                json.field(i < BOUNDS_MS.length ? Integer.toString(BOUNDS_MS[i]) : "more", n[i]);
            }
            json.endObject();
        }
    }

    void search(HookReport report) {
        statuses[report.status().ordinal()].increment();
        if (report.reason() != null) {
            reasons[report.reason().ordinal()].increment();
        }
    }

    void sidecar(String route, long nanos) {
        calls.computeIfAbsent(route, key -> new Latency()).add(nanos);
    }

    void leg(String name, long nanos, LegReason reason) {
        if (reason == null) {
            legs.computeIfAbsent(name, key -> new Latency()).add(nanos);
        } else {
            legReasons.computeIfAbsent(name + "." + reason.code(), key -> new LongAdder()).increment();
        }
    }

    /** Writes the counts, without braces around them. */
    void write(XContentBuilder json) throws IOException {
        json.startObject("searches");
        for (Status status : Status.values()) {
            json.field(status.code(), statuses[status.ordinal()].sum());
        }
        json.endObject();
        json.startObject("reasons");
        for (Reason reason : Reason.values()) {
            json.field(reason.code(), reasons[reason.ordinal()].sum());
        }
        json.endObject();
        write(json, "sidecar_calls", calls);
        write(json, "legs", legs);
        json.startObject("legs_left_out");
        for (Map.Entry<String, LongAdder> entry : new TreeMap<>(legReasons).entrySet()) {
            json.field(entry.getKey(), entry.getValue().sum());
        }
        json.endObject();
    }

    private static void write(XContentBuilder json, String name, Map<String, Latency> latencies) throws IOException {
        json.startObject(name);
        for (Map.Entry<String, Latency> entry : new TreeMap<>(latencies).entrySet()) {
            json.startObject(entry.getKey());
            entry.getValue().write(json);
            json.endObject();
        }
        json.endObject();
    }
}
