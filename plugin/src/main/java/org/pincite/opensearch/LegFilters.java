package org.pincite.opensearch;

import org.opensearch.index.query.BoolQueryBuilder;
import org.opensearch.index.query.BoostingQueryBuilder;
import org.opensearch.index.query.CombinedFieldsQueryBuilder;
import org.opensearch.index.query.DisMaxQueryBuilder;
import org.opensearch.index.query.MatchAllQueryBuilder;
import org.opensearch.index.query.MatchBoolPrefixQueryBuilder;
import org.opensearch.index.query.MatchPhrasePrefixQueryBuilder;
import org.opensearch.index.query.MatchPhraseQueryBuilder;
import org.opensearch.index.query.MatchQueryBuilder;
import org.opensearch.index.query.MultiMatchQueryBuilder;
import org.opensearch.index.query.QueryBuilder;
import org.opensearch.index.query.QueryStringQueryBuilder;
import org.opensearch.index.query.SimpleQueryStringBuilder;
import org.opensearch.search.builder.SearchSourceBuilder;

import java.util.List;
import java.util.regex.Pattern;

/**
 * Takes a query's filters apart from what it scores by, so that a leg finds nothing that the client excluded.
 *
 * <p>When in doubt there are none to be had: a leg without one of the client's filters could show what that client
 * keeps from its user.
 */
final class LegFilters {
    /** Text that the two query-string languages read as words and nothing else. */
    private static final Pattern WORDS = Pattern.compile("[\\p{L}\\p{M}\\p{N}\\s,.;'’。，？]*");
    private static final Pattern OPERATORS = Pattern.compile("\\b(AND|OR|NOT|TO)\\b");

    private LegFilters() {}

    /**
     * Returns the filters of a search as one query.
     *
     * @param text what the search is reranked by; a full-text clause with another text may be a filter in disguise
     *        ({@code match} on a keyword), so that no query with such a clause can be taken apart
     * @return a bool of {@code filter} and {@code must_not} clauses, empty when there are none; null when they can't be
     *         separated
     */
    static BoolQueryBuilder of(SearchSourceBuilder source, String text) {
        boolean derived = source.getDerivedFieldsObject() != null && source.getDerivedFieldsObject().isEmpty() == false
            || source.getDerivedFields() != null && source.getDerivedFields().isEmpty() == false;
        if (derived) {
            // A filter on a field that only this search defines.
            return null;
        }
        if (QueryText.of(source.query()).stream().map(QueryText::wellFormed).allMatch(text::equals) == false) {
            return null;
        }
        BoolQueryBuilder filters = new BoolQueryBuilder();
        if (source.query() instanceof BoolQueryBuilder bool) {
            if (onlyScores(bool, bool.filter().isEmpty() == false) == false) {
                return null;
            }
            bool.filter().forEach(filters::filter);
            bool.mustNot().forEach(filters::mustNot);
        } else if (source.query() != null && onlyScores(source.query()) == false) {
            return null;
        }
        if (source.postFilter() != null) {
            filters.filter(source.postFilter());
        }
        return filters;
    }

    /** Tells whether a bool's {@code must} and {@code should} leave nothing out but what does not match the text. */
    private static boolean onlyScores(BoolQueryBuilder bool, boolean hasFilter) {
        if (allOnlyScore(bool.must()) == false) {
            return false;
        }
        // Beside another clause a should clause is optional, and may be anything: it only adds to the score.
        boolean optional = bool.minimumShouldMatch() == null && (hasFilter || bool.must().isEmpty() == false);
        return optional || allOnlyScore(bool.should());
    }

    private static boolean allOnlyScore(List<QueryBuilder> clauses) {
        return clauses.stream().allMatch(LegFilters::onlyScores);
    }

    private static boolean onlyScores(QueryBuilder query) {
        return switch (query) {
            case MatchQueryBuilder match -> isText(match.value());
            case MatchPhraseQueryBuilder match -> isText(match.value());
            case MatchPhrasePrefixQueryBuilder match -> isText(match.value());
            case MatchBoolPrefixQueryBuilder match -> isText(match.value());
            case MultiMatchQueryBuilder match -> isText(match.value());
            case CombinedFieldsQueryBuilder match -> isText(match.queryValue());
            case MatchAllQueryBuilder all -> true;
            case QueryStringQueryBuilder text -> isWords(text.queryString());
            case SimpleQueryStringBuilder text -> isWords(text.value());
            case DisMaxQueryBuilder either -> allOnlyScore(either.innerQueries());
            case BoostingQueryBuilder boosting -> onlyScores(boosting.positiveQuery());
            case BoolQueryBuilder bool -> bool.filter().isEmpty() && bool.mustNot().isEmpty() && onlyScores(bool, false);
            default -> false;
        };
    }

    /** A number, a date or a flag picks documents; it does not ask. */
    private static boolean isText(Object value) {
        return value instanceof String text && text.codePoints().anyMatch(Character::isLetter);
    }

    /** In these languages a text may hold {@code status:public} or {@code -secret}. */
    private static boolean isWords(String text) {
        return WORDS.matcher(text).matches() && OPERATORS.matcher(text).find() == false;
    }
}
