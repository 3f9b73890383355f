package org.pincite.opensearch;

import org.opensearch.common.settings.Settings;
import org.opensearch.common.xcontent.json.JsonXContent;
import org.opensearch.core.xcontent.NamedXContentRegistry;
import org.opensearch.index.query.AbstractQueryBuilder;
import org.opensearch.search.SearchModule;
import org.opensearch.test.OpenSearchTestCase;

import java.io.IOException;
import java.util.List;
import java.util.Set;

public class QueryTextTests extends OpenSearchTestCase {
    private static final NamedXContentRegistry REGISTRY = new NamedXContentRegistry(
        new SearchModule(Settings.EMPTY, List.of()).getNamedXContents()
    );

    private static Set<String> texts(String json) throws IOException {
        try (var parser = JsonXContent.jsonXContent.createParser(REGISTRY, null, json)) {
            return QueryText.of(AbstractQueryBuilder.parseInnerQueryBuilder(parser));
        }
    }

    public void testNoQuery() {
        assertEquals(Set.of(), QueryText.of(null));
    }

    public void testEveryFullTextLeaf() throws IOException {
        for (String leaf : List.of(
            "{'match': {'text': 'may the tenant sublet'}}",
            "{'match_phrase': {'text': 'may the tenant sublet'}}",
            "{'match_phrase_prefix': {'text': 'may the tenant sublet'}}",
            "{'match_bool_prefix': {'text': 'may the tenant sublet'}}",
            "{'multi_match': {'query': 'may the tenant sublet', 'fields': ['text', 'title']}}",
            "{'combined_fields': {'query': 'may the tenant sublet', 'fields': ['text', 'title']}}",
            "{'query_string': {'query': 'may the tenant sublet'}}",
            "{'simple_query_string': {'query': 'may the tenant sublet'}}"
        )) {
            assertEquals(leaf, Set.of("may the tenant sublet"), texts(leaf.replace('\'', '"')));
        }
    }

    public void testEveryCompoundInScoringContext() throws IOException {
        String leaf = "{'bool': {'must': [{'match': {'text': 'sublet'}}]}}";
        for (String around : List.of(
            "{'bool': {'must': [%s]}}",
            "{'bool': {'should': [%s]}}",
            "{'dis_max': {'queries': [%s]}}",
            "{'function_score': {'query': %s, 'functions': [{'weight': 2}]}}",
            "{'script_score': {'query': %s, 'script': {'source': '1'}}}",
            "{'nested': {'path': 'parts', 'query': %s}}",
            "{'boosting': {'positive': %s, 'negative': {'match': {'text': 'draft'}}, 'negative_boost': 0.5}}"
        )) {
            String query = String.format(java.util.Locale.ROOT, around, leaf).replace('\'', '"');
            assertEquals(query, Set.of("sublet"), texts(query));
        }
    }

    public void testFiltersDoNotCount() throws IOException {
        assertEquals(
            Set.of("sublet"),
            texts(
                """
                {"bool": {
                  "must": {"match": {"text": "sublet"}},
                  "filter": [{"match": {"case_id": "a b"}}, {"bool": {"should": {"match": {"text": "also not"}}}}],
                  "must_not": {"match_phrase": {"text": "withdrawn"}}
                }}"""
            )
        );
        assertEquals(Set.of(), texts("{\"constant_score\": {\"filter\": {\"match\": {\"text\": \"sublet\"}}}}"));
    }

    public void testTheSameTextTwiceIsOne() throws IOException {
        assertEquals(
            Set.of("sublet"),
            texts(
                """
                {"bool": {"should": [{"match": {"text": "sublet"}}, {"match_phrase": {"title": " sublet "}},
                  {"term": {"case_id": "c1"}}, {"match": {"page": 7}}]}}"""
            )
        );
    }

    public void testSeveralTexts() throws IOException {
        assertEquals(
            Set.of("sublet", "assign"),
            texts("{\"dis_max\": {\"queries\": [{\"match\": {\"text\": \"sublet\"}}, {\"match\": {\"text\": \"assign\"}}]}}")
        );
    }

    public void testWhatIsNoText() throws IOException {
        assertEquals(Set.of(), texts("{\"match_all\": {}}"));
        assertEquals(Set.of(), texts("{\"query_string\": {\"query\": \"*\"}}"));
        assertEquals(Set.of(), texts("{\"term\": {\"text\": \"sublet\"}}"));
        assertEquals(Set.of(), texts("{\"match\": {\"page\": 7}}"));
        assertEquals(Set.of(), texts("{\"range\": {\"page\": {\"gte\": 7}}}"));
    }

    public void testWellFormed() {
        assertEquals("房屋 🏠 \uD867\uDE3D é", QueryText.wellFormed("房屋 🏠 \uD867\uDE3D é"));
        assertEquals("a\uFFFDb", QueryText.wellFormed("a\uD83Cb"));
        assertEquals("a\uFFFD", QueryText.wellFormed("a\uD83C"));
        assertEquals("\uFFFD\uFFFD", QueryText.wellFormed("\uDFE0\uD83C"));
    }
}
