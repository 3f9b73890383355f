package org.pincite.opensearch;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpResponse.BodySubscribers;
import java.net.http.HttpTimeoutException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BiConsumer;
import java.util.function.IntSupplier;
import java.util.function.LongSupplier;

import javax.net.ssl.SSLException;

/**
 * Calls the sidecar over HTTP/1.1 without ever blocking: one client per node, a bound on calls in flight and on the
 * size of a reply.
 */
final class SidecarClient implements Closeable {
    static final int MAX_REPLY_BYTES = 2 * 1024 * 1024;
    static final int MAX_IN_FLIGHT = 128;

    static final String RERANK = "/v1/hook/rerank";
    static final String LEGS = "/v1/hook/legs";

    private final List<String> urls;
    /** By route and URL: a sidecar that cannot rerank may yet say the legs, and the other way round. */
    private final Map<String, List<Breaker>> breakers;
    private volatile String token;
    private final IntSupplier maxInFlight;
    private final AtomicInteger inFlight = new AtomicInteger();
    private final HttpClient http;

    /** A client with fixed limits and breakers that never open. */
    SidecarClient(List<URI> urls, String token, int maxInFlight) {
        this(urls, token, () -> maxInFlight, () -> Integer.MAX_VALUE, () -> 0L);
    }

    /**
     * @param urls base URLs of the sidecar, tried in this order
     * @param token bearer token, or null
     * @param maxInFlight how many calls may wait for a reply at a time
     * @param breakerFailures how many failures in a row open the breaker of a URL
     * @param breakerOpenNanos how long it stays open, in nanoseconds
     */
    SidecarClient(List<URI> urls, String token, IntSupplier maxInFlight, IntSupplier breakerFailures, LongSupplier breakerOpenNanos) {
        this.urls = urls.stream().map(SidecarClient::withoutSlash).toList();
        this.breakers = new TreeMap<>();
        for (String route : List.of(RERANK, LEGS)) {
            breakers.put(route, urls.stream().map(url -> new Breaker(breakerFailures, breakerOpenNanos, System::nanoTime)).toList());
        }
        this.token = token;
        this.maxInFlight = maxInFlight;
        // No proxy: a proxy of the JVM is not meant for a neighbour. Redirects are not followed: the token would be.
        this.http = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .followRedirects(HttpClient.Redirect.NEVER)
            .proxy(HttpClient.Builder.NO_PROXY)
            .build();
    }

    private static String withoutSlash(URI base) {
        String text = base.toString();
        return text.endsWith("/") ? text.substring(0, text.length() - 1) : text;
    }

    /** Takes a new secret, for calls from now on. */
    void token(String token) {
        this.token = token;
    }

    int inFlight() {
        return inFlight.get();
    }

    /** Returns the states of a route's breakers, in the order of the URLs. */
    List<Breaker.State> breakers(String path) {
        return breakers.get(path).stream().map(Breaker::state).toList();
    }

    /** Returns the first URL from {@code index} on whose breaker lets a call through, or −1. */
    private int admitted(String path, int index) {
        for (int i = index; i < urls.size(); i++) {
            if (breakers.get(path).get(i).admits()) {
                return i;
            }
        }
        return -1;
    }

    /** A call that can be given up. */
    final class Call {
        private final String path;
        private final byte[] body;
        private final long endNanos;
        private final String opaqueId;
        private final BiConsumer<byte[], HookException> done;
        private volatile boolean cancelled;
        private volatile CompletableFuture<HttpResponse<byte[]>> current;

        private Call(String path, byte[] body, Duration timeout, String opaqueId, BiConsumer<byte[], HookException> done) {
            this.path = path;
            this.body = body;
            this.endNanos = System.nanoTime() + timeout.toNanos();
            this.opaqueId = opaqueId;
            this.done = done;
        }

        /** Stops waiting, which counts as a sidecar that was late. What the call still reports is for the caller to ignore. */
        void cancel() {
            cancelled = true;
            CompletableFuture<HttpResponse<byte[]>> future = current;
            if (future != null) {
                future.cancel(true);
            }
        }

        private void start(int index, boolean isRetry) {
            Duration left = Duration.ofNanos(Math.max(1_000_000L, endNanos - System.nanoTime()));
            CompletableFuture<HttpResponse<byte[]>> future = http.sendAsync(
                request(URI.create(urls.get(index) + path), body, left, opaqueId),
                SidecarClient::subscriber
            );
            current = future;
            if (cancelled) {
                future.cancel(true);
            }
            future.whenComplete((response, error) -> {
                if (error != null && cancelled == false) {
                    try {
                        int next = isRefused(error) ? admitted(path, index + 1) : -1;
                        if (next >= 0) {
                            breakers.get(path).get(index).failed();
                            start(next, false);
                            return;
                        }
                        if (isBroken(error) && isRetry == false && System.nanoTime() < endNanos) {
                            // A kept connection that the sidecar had just closed; asking again changes nothing there.
                            start(index, true);
                            return;
                        }
                    } catch (RuntimeException e) {
                        error = e;
                    }
                }
                inFlight.decrementAndGet();
                if (error != null && reported(error) == null || error == null && response.statusCode() >= 500) {
                    breakers.get(path).get(index).failed();
                } else {
                    breakers.get(path).get(index).succeeded();
                }
                if (error != null) {
                    done.accept(null, failure(error));
                    return;
                }
                HookException failure = failure(response.statusCode());
                done.accept(failure == null ? response.body() : null, failure);
            });
        }
    }

    /** Sends a rerank request. */
    Call send(byte[] body, Duration timeout, String opaqueId, BiConsumer<byte[], HookException> done) throws HookException {
        return send(RERANK, body, timeout, opaqueId, done);
    }

    /**
     * Sends a request.
     *
     * @param path the route
     * @param body its JSON
     * @param timeout how long to wait
     * @param opaqueId the search's {@code X-Opaque-Id}, or null
     * @param done gets the body of an HTTP 200 or the failure, once, on a thread of the HTTP client
     * @throws HookException {@code sidecar_overloaded} when too many calls are in flight, {@code breaker_open} when
     *         every URL is left alone for now
     */
    Call send(String path, byte[] body, Duration timeout, String opaqueId, BiConsumer<byte[], HookException> done)
        throws HookException {
        if (inFlight.incrementAndGet() > maxInFlight.getAsInt()) {
            inFlight.decrementAndGet();
            throw new HookException(Reason.SIDECAR_OVERLOADED, "Too many calls to the sidecar are in flight on this node.");
        }
        int first = admitted(path, 0);
        if (first < 0) {
            inFlight.decrementAndGet();
            throw new HookException(Reason.BREAKER_OPEN, "The sidecar failed several times in a row and is left alone for a while.");
        }
        Call call = new Call(path, body, timeout, opaqueId, done);
        try {
            call.start(first, false);
        } catch (RuntimeException e) {
            inFlight.decrementAndGet();
            throw e;
        }
        return call;
    }

    private HttpRequest request(URI endpoint, byte[] body, Duration timeout, String opaqueId) {
        HttpRequest.Builder builder = HttpRequest.newBuilder(endpoint)
            .timeout(timeout)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json")
            .header("Pincite-Contract", Integer.toString(RerankReply.CONTRACT))
            .POST(HttpRequest.BodyPublishers.ofByteArray(body));
        String secret = token;
        if (secret != null) {
            builder.header("Authorization", "Bearer " + secret);
        }
        if (opaqueId != null) {
            try {
                builder.header("X-Opaque-Id", opaqueId);
            } catch (IllegalArgumentException e) {
                // A value that HTTP cannot carry: the search goes on without it.
            }
        }
        return builder.build();
    }

    private static BodySubscriber<byte[]> subscriber(HttpResponse.ResponseInfo info) {
        return info.statusCode() == 200 ? new LimitedBody() : BodySubscribers.replacing(new byte[0]);
    }

    private static HookException failure(int status) {
        return switch (status) {
            case 200 -> null;
            case 401, 403 -> new HookException(
                Reason.SIDECAR_UNAUTHORIZED,
                "The sidecar refused the token (HTTP " + status + "); see pincite.sidecar.token in the keystore."
            );
            case 409 -> new HookException(Reason.CONTRACT_MISMATCH, "The sidecar does not speak contract " + RerankReply.CONTRACT + ".");
            case 429 -> new HookException(Reason.SIDECAR_OVERLOADED, "The sidecar's queue is full (HTTP 429).");
            default -> new HookException(Reason.SIDECAR_ERROR, "The sidecar answered HTTP " + status + ".");
        };
    }

    private static boolean isRefused(Throwable error) {
        return unwrap(error) instanceof ConnectException;
    }

    /** Tells whether a connection that stood was lost before a reply began. */
    private static boolean isBroken(Throwable error) {
        return unwrap(error) instanceof IOException broken
            && reported(error) == null
            && broken instanceof ConnectException == false
            && broken instanceof HttpTimeoutException == false
            && broken instanceof SSLException == false;
    }

    /** Returns the failure that the body's subscriber reported, or null. */
    private static HookException reported(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof HookException hook) {
                return hook;
            }
        }
        return null;
    }

    private static HookException failure(Throwable error) {
        HookException reported = reported(error);
        if (reported != null) {
            return reported;
        }
        Throwable cause = unwrap(error);
        return switch (cause) {
            case HttpTimeoutException timeout -> new HookException(Reason.SIDECAR_TIMEOUT, "The sidecar did not answer in time.");
            case ConnectException refused -> new HookException(Reason.SIDECAR_UNREACHABLE, "No sidecar accepts a connection.");
            case SSLException tls -> new HookException(Reason.SIDECAR_UNREACHABLE, "No TLS connection to the sidecar.");
            case IOException broken -> new HookException(Reason.SIDECAR_ERROR, "The connection to the sidecar broke.");
            default -> new HookException(
                Reason.INTERNAL_ERROR,
                "The call to the sidecar failed in the plugin: " + cause.getClass().getSimpleName() + "."
            );
        };
    }

    private static Throwable unwrap(Throwable error) {
        Throwable cause = error;
        while (cause instanceof CompletionException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause;
    }

    @Override
    public void close() {
        http.shutdownNow();
        try {
            http.awaitTermination(Duration.ofSeconds(5));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Collects a body up to {@link #MAX_REPLY_BYTES}; one that is longer or breaks off is a bad reply. */
    private static final class LimitedBody implements BodySubscriber<byte[]> {
        private final CompletableFuture<byte[]> result = new CompletableFuture<>();
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private Flow.Subscription subscription;

        @Override
        public CompletionStage<byte[]> getBody() {
            return result;
        }

        @Override
        public void onSubscribe(Flow.Subscription subscription) {
            this.subscription = subscription;
            subscription.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(List<ByteBuffer> buffers) {
            for (ByteBuffer buffer : buffers) {
                if (bytes.size() + buffer.remaining() > MAX_REPLY_BYTES) {
                    subscription.cancel();
                    result.completeExceptionally(
                        new HookException(Reason.BAD_REPLY, "The reply is longer than " + MAX_REPLY_BYTES + " bytes.")
                    );
                    return;
                }
                byte[] part = new byte[buffer.remaining()];
                buffer.get(part);
                bytes.write(part, 0, part.length);
            }
        }

        @Override
        public void onError(Throwable error) {
            result.completeExceptionally(
                error instanceof HttpTimeoutException ? error : new HookException(Reason.BAD_REPLY, "The reply broke off.")
            );
        }

        @Override
        public void onComplete() {
            result.complete(bytes.toByteArray());
        }
    }
}
