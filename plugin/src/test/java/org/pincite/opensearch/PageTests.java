package org.pincite.opensearch;

import org.opensearch.test.OpenSearchTestCase;

import java.util.Arrays;
import java.util.stream.IntStream;

public class PageTests extends OpenSearchTestCase {

    public void testPagesAreDisjointAndCover() {
        int nHits = randomIntBetween(1, 60);
        int[] order = IntStream.range(0, randomIntBetween(0, nHits)).map(i -> -i).toArray();
        for (int i = 0; i < order.length; i++) {
            order[i] = order.length - 1 - i;
        }
        int size = randomIntBetween(1, 15);
        IntStream all = IntStream.empty();
        for (int from = 0; from < nHits; from += size) {
            all = IntStream.concat(all, Arrays.stream(Page.cut(order, nHits, from, size)));
        }
        int[] expected = IntStream.range(0, nHits).map(i -> i < order.length ? order.length - 1 - i : i).toArray();
        assertArrayEquals(expected, all.toArray());
    }

    public void testAcrossTheWindowsEnd() {
        assertArrayEquals(new int[] { 0, 3, 4 }, Page.cut(new int[] { 2, 1, 0 }, 5, 2, 3));
    }

    public void testPastTheEnd() {
        assertArrayEquals(new int[0], Page.cut(new int[] { 1, 0 }, 2, 2, 10));
        assertArrayEquals(new int[0], Page.cut(new int[] { 1, 0 }, 2, Integer.MAX_VALUE, Integer.MAX_VALUE));
        assertArrayEquals(new int[0], Page.cut(new int[0], 0, 0, 10));
    }

    public void testFirstStageOrder() {
        assertArrayEquals(new int[] { 1, 2 }, Page.cut(new int[0], 9, 1, 2));
    }
}
