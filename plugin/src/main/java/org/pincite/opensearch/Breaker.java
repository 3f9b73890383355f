package org.pincite.opensearch;

import java.util.Locale;
import java.util.function.IntSupplier;
import java.util.function.LongSupplier;

/**
 * Keeps searches from waiting for a sidecar that does not answer: one for each URL.
 *
 * <p>It opens after so many failures in a row. After the cool-down one call goes through as a probe, and what becomes
 * of that decides.
 */
final class Breaker {
    /** Its states, by the words of the stats. */
    enum State {
        CLOSED,
        OPEN,
        HALF_OPEN;

        String code() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    private final IntSupplier maxFailures;
    private final LongSupplier openNanos;
    private final LongSupplier clock;
    private State state = State.CLOSED;
    private int failures;
    private long openedAt;

    /**
     * @param maxFailures failures in a row that open it
     * @param openNanos how long it stays open before a probe, in nanoseconds
     * @param clock a clock in nanoseconds
     */
    Breaker(IntSupplier maxFailures, LongSupplier openNanos, LongSupplier clock) {
        this.maxFailures = maxFailures;
        this.openNanos = openNanos;
        this.clock = clock;
    }

    /** Returns whether a call may go through now. A caller that gets true must report how the call ended. */
    synchronized boolean admits() {
        if (state == State.CLOSED) {
            return true;
        }
        if (clock.getAsLong() - openedAt < openNanos.getAsLong()) {
            return false;
        }
        // One probe a cool-down: should its end never be reported, the next one is let through after that.
        state = State.HALF_OPEN;
        openedAt = clock.getAsLong();
        return true;
    }

    /** The sidecar answered, be it with a refusal. */
    synchronized void succeeded() {
        state = State.CLOSED;
        failures = 0;
    }

    /** It did not answer, or with a failure of its own. */
    synchronized void failed() {
        failures++;
        if (state != State.CLOSED || failures >= maxFailures.getAsInt()) {
            state = State.OPEN;
            openedAt = clock.getAsLong();
        }
    }

    synchronized State state() {
        return state;
    }
}
