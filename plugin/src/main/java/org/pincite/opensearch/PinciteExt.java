package org.pincite.opensearch;

import org.opensearch.core.common.ParsingException;
import org.opensearch.core.common.io.stream.StreamInput;
import org.opensearch.core.common.io.stream.StreamOutput;
import org.opensearch.core.common.io.stream.Writeable;
import org.opensearch.core.xcontent.XContentBuilder;
import org.opensearch.core.xcontent.XContentParser;
import org.opensearch.search.SearchExtBuilder;

import java.io.IOException;
import java.util.List;
import java.util.Objects;

/**
 * The object {@code ext.pincite}: in a search request what the client asks of the hook, in a response what it did.
 *
 * <p>OpenSearch has one name and one parser for both directions, so one class holds either.
 */
final class PinciteExt extends SearchExtBuilder {
    static final String NAME = "pincite";

    private static final String QUERY = "query";
    private static final String ENABLED = "enabled";

    /**
     * What a client may ask.
     *
     * @param query the text to rerank by, or null for that of the search's own query
     * @param enabled false to leave this search alone
     */
    record Input(String query, boolean enabled) implements Writeable {
        static final Input NONE = new Input(null, true);

        Input(StreamInput in) throws IOException {
            this(in.readOptionalString(), in.readBoolean());
        }

        @Override
        public void writeTo(StreamOutput out) throws IOException {
            out.writeOptionalString(query);
            out.writeBoolean(enabled);
        }
    }

    private final Input input;
    private final HookReport report;

    PinciteExt(Input input) {
        this.input = Objects.requireNonNull(input);
        this.report = null;
    }

    PinciteExt(HookReport report) {
        this.input = null;
        this.report = Objects.requireNonNull(report);
    }

    PinciteExt(StreamInput in) throws IOException {
        this.input = in.readOptionalWriteable(Input::new);
        this.report = in.readOptionalWriteable(HookReport::new);
    }

    @Override
    public void writeTo(StreamOutput out) throws IOException {
        out.writeOptionalWriteable(input);
        out.writeOptionalWriteable(report);
    }

    /**
     * Reads either form: an object with {@code status} is a report, any other the input of a request.
     *
     * @throws ParsingException (HTTP 400) when it is neither
     */
    static PinciteExt fromXContent(XContentParser parser) throws IOException {
        if (parser.currentToken() != XContentParser.Token.START_OBJECT) {
            throw new ParsingException(parser.getTokenLocation(), "[ext." + NAME + "] must be an object");
        }
        try {
            Fields fields = Fields.of(parser.map(), "[ext." + NAME + "]");
            if (fields.has("status")) {
                return new PinciteExt(HookReport.from(fields));
            }
            Input input = new Input(
                fields.has(QUERY) ? fields.string(QUERY) : null,
                fields.has(ENABLED) == false || fields.bool(ENABLED)
            );
            fields.end();
            return new PinciteExt(input);
        } catch (IllegalArgumentException e) {
            throw new ParsingException(parser.getTokenLocation(), e.getMessage() + "; a request may hold [query] and [enabled]");
        }
    }

    /** Returns what the request's {@code ext.pincite} asks, {@link Input#NONE} when there is none. */
    static Input inputOf(List<SearchExtBuilder> exts) {
        for (SearchExtBuilder ext : exts) {
            if (ext instanceof PinciteExt pincite && pincite.input != null) {
                return pincite.input;
            }
        }
        return Input.NONE;
    }

    Input input() {
        return input;
    }

    HookReport report() {
        return report;
    }

    @Override
    public String getWriteableName() {
        return NAME;
    }

    @Override
    public XContentBuilder toXContent(XContentBuilder builder, Params params) throws IOException {
        builder.startObject(NAME);
        if (report != null) {
            report.toXContent(builder, params);
        } else {
            if (input.query() != null) {
                builder.field(QUERY, input.query());
            }
            builder.field(ENABLED, input.enabled());
        }
        return builder.endObject();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof PinciteExt that && Objects.equals(input, that.input) && Objects.equals(report, that.report);
    }

    @Override
    public int hashCode() {
        return Objects.hash(input, report);
    }
}
