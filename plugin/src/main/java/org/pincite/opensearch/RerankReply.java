package org.pincite.opensearch;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What the sidecar answers: {@code contracts/schemas/hook_rerank_response.schema.json}, read strictly.
 *
 * @param model what scored
 * @param tookMs the sidecar's own time, in milliseconds
 * @param stages its stages
 * @param results one for each candidate, best first; equal scores keep the first stage's order
 */
record RerankReply(HookReport.Model model, double tookMs, List<HookReport.Stage> stages, List<Result> results) {
    static final int CONTRACT = 1;

    private static final List<String> STAGE_SCORES = List.of("first_stage", "maxsim", "fused", "cross_encoder");

    /**
     * A candidate with its scores.
     *
     * @param position its place among the candidates, from 0
     * @param score the final score, finite
     * @param scores the score of each stage, null where a stage did not score it
     */
    record Result(int position, double score, Map<String, Double> scores) {
        boolean hasTokens() {
            return scores.get("maxsim") != null;
        }
    }

    /** Returns how many candidates the sidecar had no token vectors for. */
    int nWithoutTokens() {
        return (int) results.stream().filter(result -> result.hasTokens() == false).count();
    }

    /**
     * Reads a reply of HTTP 200.
     *
     * @param json the body
     * @param ids the ids that were sent, in first-stage order, without duplicates
     * @throws HookException {@code contract_mismatch} when another contract speaks, {@code bad_reply} when the body is
     *         not what the contract says or not a permutation of what was sent
     */
    static RerankReply parse(byte[] json, List<String> ids) throws HookException {
        try {
            Fields fields = Fields.parse(json, "the sidecar's reply");
            int contract = fields.integer("contract", Integer.MIN_VALUE);
            if (contract != CONTRACT) {
                throw new HookException(
                    Reason.CONTRACT_MISMATCH,
                    "The sidecar speaks contract " + contract + ", this plugin speaks " + CONTRACT + "."
                );
            }
            HookReport.Model model = HookReport.Model.from(fields.object("model"));
            double tookMs = fields.millis("took_ms");
            List<HookReport.Stage> stages = fields.objects("stages").stream().map(HookReport.Stage::from).toList();
            List<Fields> entries = fields.objects("results");
            fields.end();
            return new RerankReply(model, tookMs, stages, results(entries, ids));
        } catch (IllegalArgumentException e) {
            throw new HookException(Reason.BAD_REPLY, "The reply breaks the contract: " + e.getMessage() + ".");
        }
    }

    private static List<Result> results(List<Fields> entries, List<String> ids) {
        if (entries.size() != ids.size()) {
            throw new IllegalArgumentException(entries.size() + " results for " + ids.size() + " candidates");
        }
        Map<String, Integer> positions = new HashMap<>();
        for (int i = 0; i < ids.size(); i++) {
            positions.put(ids.get(i), i);
        }
        Result[] results = new Result[entries.size()];
        for (int i = 0; i < results.length; i++) {
            Fields entry = entries.get(i);
            // Taken out of the map once found: an id that comes twice is then as unknown as a foreign one.
            Integer position = positions.remove(entry.string("id"));
            if (position == null) {
                throw new IllegalArgumentException("a result whose id was not sent, or that comes twice");
            }
            // Adding 0.0 makes -0.0 the 0.0 that it equals; Double.compare tells them apart.
            double score = entry.number("score") + 0.0;
            if (i > 0 && score > results[i - 1].score()) {
                throw new IllegalArgumentException("the results are not sorted by score");
            }
            Fields scores = entry.object("scores");
            Map<String, Double> stageScores = new LinkedHashMap<>();
            for (String stage : STAGE_SCORES) {
                stageScores.put(stage, scores.nullableNumber(stage));
            }
            scores.end();
            entry.end();
            results[i] = new Result(position, score, stageScores);
        }
        Arrays.sort(results, Comparator.comparingDouble(Result::score).reversed().thenComparingInt(Result::position));
        return new ArrayList<>(Arrays.asList(results));
    }
}
