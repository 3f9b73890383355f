package org.pincite.opensearch;

import org.opensearch.core.common.io.stream.StreamInput;
import org.opensearch.core.common.io.stream.StreamOutput;
import org.opensearch.core.common.io.stream.Writeable;
import org.opensearch.core.xcontent.ToXContentFragment;
import org.opensearch.core.xcontent.XContentBuilder;

import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What {@code ext.pincite} of a search response says: {@code contracts/schemas/ext_pincite.schema.json}.
 *
 * @param status what became of the search
 * @param reason why not, null when applied
 * @param message one sentence for people, or null; never query or passage text
 * @param window how many first-stage hits were asked for to be reranked (K1), 0 when the search was not widened
 * @param nCandidates how many hits were sent to the sidecar
 * @param stages the sidecar's stages, and the call itself as stage {@code sidecar}
 * @param tookMs what the hook added to this search, in milliseconds
 * @param model what scored, null when nothing did
 * @param nKnnOnly how many hits k-NN alone added
 * @param legs what each leg of the first stage brought; empty when the search was not widened
 * @param answerId an answer to follow, or null
 * @param hits one entry for each hit of the page, in its order; empty unless applied or partial
 */
record HookReport(
    Status status,
    Reason reason,
    String message,
    int window,
    int nCandidates,
    List<Stage> stages,
    double tookMs,
    Model model,
    int nKnnOnly,
    List<Leg> legs,
    String answerId,
    List<Hit> hits
) implements Writeable, ToXContentFragment {

    /** A stage and its time in milliseconds. */
    record Stage(String name, double tookMs) implements Writeable {
        Stage(StreamInput in) throws IOException {
            this(in.readString(), in.readDouble());
        }

        @Override
        public void writeTo(StreamOutput out) throws IOException {
            out.writeString(name);
            out.writeDouble(tookMs);
        }

        static Stage from(Fields fields) {
            Stage stage = new Stage(fields.string("name"), fields.millis("took_ms"));
            fields.end();
            return stage;
        }
    }

    /**
     * A leg of the first stage.
     *
     * @param name {@code bm25} (the client's own query), {@code knn} or {@code centroids}
     * @param nHits how many hits it brought
     * @param nOnly how many candidates no other leg found
     * @param tookMs its time, in milliseconds
     * @param reason why it was left out, null when it ran
     */
    record Leg(String name, int nHits, int nOnly, double tookMs, LegReason reason) implements Writeable {
        static final List<String> NAMES = List.of("bm25", "knn", "centroids");

        Leg {
            if (NAMES.contains(name) == false) {
                throw new IllegalArgumentException("unknown leg");
            }
        }

        Leg(StreamInput in) throws IOException {
            this(in.readString(), in.readVInt(), in.readVInt(), in.readDouble(), in.readBoolean() ? in.readEnum(LegReason.class) : null);
        }

        @Override
        public void writeTo(StreamOutput out) throws IOException {
            out.writeString(name);
            out.writeVInt(nHits);
            out.writeVInt(nOnly);
            out.writeDouble(tookMs);
            out.writeBoolean(reason != null);
            if (reason != null) {
                out.writeEnum(reason);
            }
        }

        static Leg from(Fields fields) {
            String name = fields.string("name");
            int nHits = fields.integer("n_hits", 0);
            int nOnly = fields.integer("n_only", 0);
            double tookMs = fields.millis("took_ms");
            String reason = fields.nullableString("reason");
            fields.end();
            return new Leg(name, nHits, nOnly, tookMs, reason == null ? null : LegReason.of(reason));
        }
    }

    /** The encoder and the reranker that scored. */
    record Model(String encoder, String reranker) implements Writeable {
        Model(StreamInput in) throws IOException {
            this(in.readString(), in.readString());
        }

        @Override
        public void writeTo(StreamOutput out) throws IOException {
            out.writeString(encoder);
            out.writeString(reranker);
        }

        static Model from(Fields fields) {
            Model model = new Model(fields.string("encoder"), fields.string("reranker"));
            fields.end();
            return model;
        }
    }

    /**
     * The scores of one hit of the page.
     *
     * @param id the hit's {@code _id}
     * @param rank its rank in the whole result, from 1
     * @param firstRank the rank that the first stage gave it, from 1
     * @param score the final score, null for a hit beyond the window
     * @param scores the score of each stage, null where a stage did not score it
     */
    record Hit(String id, int rank, int firstRank, Double score, Map<String, Double> scores) implements Writeable {
        Hit(StreamInput in) throws IOException {
            this(in.readString(), in.readVInt(), in.readVInt(), in.readOptionalDouble(), readScores(in));
        }

        @Override
        public void writeTo(StreamOutput out) throws IOException {
            out.writeString(id);
            out.writeVInt(rank);
            out.writeVInt(firstRank);
            out.writeOptionalDouble(score);
            out.writeVInt(scores.size());
            for (Map.Entry<String, Double> entry : scores.entrySet()) {
                out.writeString(entry.getKey());
                out.writeOptionalDouble(entry.getValue());
            }
        }

        private static Map<String, Double> readScores(StreamInput in) throws IOException {
            int size = in.readVInt();
            Map<String, Double> scores = new LinkedHashMap<>();
            for (int i = 0; i < size; i++) {
                scores.put(in.readString(), in.readOptionalDouble());
            }
            return scores;
        }

        static Hit from(Fields fields) {
            Hit hit = new Hit(
                fields.string("id"),
                fields.integer("rank", 1),
                fields.integer("first_rank", 1),
                fields.has("score") ? fields.nullableNumber("score") : null,
                fields.object("scores").nullableNumbers()
            );
            fields.end();
            return hit;
        }
    }

    /** Makes the report of a search that was not reranked. */
    static HookReport not(Reason reason, String message, int window, int nCandidates, List<Stage> stages, double tookMs) {
        return new HookReport(reason.status(), reason, message, window, nCandidates, stages, tookMs, null, 0, List.of(), null, List.of());
    }

    /** Returns this report with the legs. */
    HookReport with(List<Leg> ran) {
        return new HookReport(
            status,
            reason,
            message,
            window,
            nCandidates,
            stages,
            tookMs,
            model,
            nKnnOnly,
            List.copyOf(ran),
            answerId,
            hits
        );
    }

    HookReport(StreamInput in) throws IOException {
        this(
            in.readEnum(Status.class),
            in.readBoolean() ? in.readEnum(Reason.class) : null,
            in.readOptionalString(),
            in.readVInt(),
            in.readVInt(),
            in.readList(Stage::new),
            in.readDouble(),
            in.readOptionalWriteable(Model::new),
            in.readVInt(),
            in.readList(Leg::new),
            in.readOptionalString(),
            in.readList(Hit::new)
        );
    }

    @Override
    public void writeTo(StreamOutput out) throws IOException {
        out.writeEnum(status);
        out.writeBoolean(reason != null);
        if (reason != null) {
            out.writeEnum(reason);
        }
        out.writeOptionalString(message);
        out.writeVInt(window);
        out.writeVInt(nCandidates);
        out.writeList(stages);
        out.writeDouble(tookMs);
        out.writeOptionalWriteable(model);
        out.writeVInt(nKnnOnly);
        out.writeList(legs);
        out.writeOptionalString(answerId);
        out.writeList(hits);
    }

    /**
     * Reads a report strictly.
     *
     * @throws IllegalArgumentException when a field is missing, unknown or of another type
     */
    static HookReport from(Fields fields) {
        Status status = Status.of(fields.string("status"));
        String reason = fields.nullableString("reason");
        Fields model = fields.nullableObject("model");
        HookReport report = new HookReport(
            status,
            reason == null ? null : Reason.of(reason),
            fields.has("message") ? fields.nullableString("message") : null,
            fields.integer("window", 0),
            fields.integer("n_candidates", 0),
            fields.objects("stages").stream().map(Stage::from).toList(),
            fields.millis("took_ms"),
            model == null ? null : Model.from(model),
            fields.has("n_knn_only") ? fields.integer("n_knn_only", 0) : 0,
            fields.has("legs") ? fields.objects("legs").stream().map(Leg::from).toList() : List.of(),
            fields.has("answer_id") ? fields.nullableString("answer_id") : null,
            fields.objects("hits").stream().map(Hit::from).toList()
        );
        fields.end();
        return report;
    }

    /** Writes the fields of the object, without its braces. */
    @Override
    public XContentBuilder toXContent(XContentBuilder builder, Params params) throws IOException {
        builder.field("status", status.code());
        builder.field("reason", reason == null ? null : reason.code());
        builder.field("message", message);
        builder.field("window", window);
        builder.field("n_candidates", nCandidates);
        builder.startArray("stages");
        for (Stage stage : stages) {
            builder.startObject().field("name", stage.name()).field("took_ms", stage.tookMs()).endObject();
        }
        builder.endArray();
        builder.field("took_ms", tookMs);
        if (model == null) {
            builder.nullField("model");
        } else {
            builder.startObject("model").field("encoder", model.encoder()).field("reranker", model.reranker()).endObject();
        }
        builder.field("n_knn_only", nKnnOnly);
        builder.startArray("legs");
        for (Leg leg : legs) {
            builder.startObject().field("name", leg.name()).field("n_hits", leg.nHits()).field("n_only", leg.nOnly());
            builder.field("took_ms", leg.tookMs()).field("reason", leg.reason() == null ? null : leg.reason().code()).endObject();
        }
        builder.endArray();
        builder.field("answer_id", answerId);
        builder.startArray("hits");
        for (Hit hit : hits) {
            builder.startObject();
            builder.field("id", hit.id());
            builder.field("rank", hit.rank());
            builder.field("first_rank", hit.firstRank());
            builder.field("score", hit.score());
            builder.startObject("scores");
            for (Map.Entry<String, Double> entry : hit.scores().entrySet()) {
                builder.field(entry.getKey(), entry.getValue());
            }
            builder.endObject();
            builder.endObject();
        }
        return builder.endArray();
    }
}
