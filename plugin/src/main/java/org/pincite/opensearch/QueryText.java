package org.pincite.opensearch;

import org.apache.lucene.search.BooleanClause.Occur;
import org.opensearch.index.query.BoostingQueryBuilder;
import org.opensearch.index.query.CombinedFieldsQueryBuilder;
import org.opensearch.index.query.MatchBoolPrefixQueryBuilder;
import org.opensearch.index.query.MatchPhrasePrefixQueryBuilder;
import org.opensearch.index.query.MatchPhraseQueryBuilder;
import org.opensearch.index.query.MatchQueryBuilder;
import org.opensearch.index.query.MultiMatchQueryBuilder;
import org.opensearch.index.query.NestedQueryBuilder;
import org.opensearch.index.query.QueryBuilder;
import org.opensearch.index.query.QueryBuilderVisitor;
import org.opensearch.index.query.QueryStringQueryBuilder;
import org.opensearch.index.query.SimpleQueryStringBuilder;
import org.opensearch.index.query.functionscore.ScriptScoreQueryBuilder;

import java.util.LinkedHashSet;
import java.util.Set;

/** Finds the text that a query asks for: that of its full-text leaves in scoring context. */
final class QueryText {
    private final Set<String> texts = new LinkedHashSet<>();

    private QueryText() {}

    /**
     * Returns the distinct texts of the query's full-text leaves that count for the score, in the query's order.
     *
     * <p>What stands in {@code filter}, {@code must_not}, {@code constant_score} or the negative part of
     * {@code boosting} does not count, nor does a text without a letter or digit ({@code *}).
     *
     * @param query a query, or null
     */
    static Set<String> of(QueryBuilder query) {
        QueryText found = new QueryText();
        if (query != null) {
            found.collect(query);
        }
        return found.texts;
    }

    private void collect(QueryBuilder query) {
        switch (query) {
            case MatchQueryBuilder match -> add(match.value());
            case MatchPhraseQueryBuilder match -> add(match.value());
            case MatchPhrasePrefixQueryBuilder match -> add(match.value());
            case MatchBoolPrefixQueryBuilder match -> add(match.value());
            case MultiMatchQueryBuilder match -> add(match.value());
            case CombinedFieldsQueryBuilder match -> add(match.queryValue());
            case QueryStringQueryBuilder match -> add(match.queryString());
            case SimpleQueryStringBuilder match -> add(match.value());
            // These three hand their child to the visitor without visiting below it, and boosting
            // does not tell its negative part from a should clause.
            case BoostingQueryBuilder boosting -> collect(boosting.positiveQuery());
            case NestedQueryBuilder nested -> collect(nested.query());
            case ScriptScoreQueryBuilder script -> collect(script.query());
            default -> query.visit(new Below(query));
        }
    }

    private void add(Object value) {
        // A number in a match query is not a question.
        if (value instanceof String text && text.codePoints().anyMatch(Character::isLetterOrDigit)) {
            texts.add(text.strip());
        }
    }

    /** Sees the direct children of a compound query; {@link #collect} does the rest of the way down. */
    private final class Below implements QueryBuilderVisitor {
        private final QueryBuilder parent;

        Below(QueryBuilder parent) {
            this.parent = parent;
        }

        @Override
        public void accept(QueryBuilder query) {
            if (query != parent) {
                collect(query);
            }
        }

        @Override
        public QueryBuilderVisitor getChildVisitor(Occur occur) {
            if (occur == Occur.FILTER || occur == Occur.MUST_NOT) {
                return NO_OP_VISITOR;
            }
            return new QueryBuilderVisitor() {
                @Override
                public void accept(QueryBuilder child) {
                    collect(child);
                }

                @Override
                public QueryBuilderVisitor getChildVisitor(Occur below) {
                    return NO_OP_VISITOR;
                }
            };
        }
    }

    /** Replaces halves of surrogate pairs, which no UTF-8 text can hold, by U+FFFD. */
    static String wellFormed(String text) {
        StringBuilder mended = null;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (Character.isSurrogate(c) == false) {
                continue;
            }
            if (Character.isHighSurrogate(c) && i + 1 < text.length() && Character.isLowSurrogate(text.charAt(i + 1))) {
                i++;
                continue;
            }
            if (mended == null) {
                mended = new StringBuilder(text);
            }
            mended.setCharAt(i, '\uFFFD');
        }
        return mended == null ? text : mended.toString();
    }
}
