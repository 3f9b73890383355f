package org.pincite.opensearch;

import org.opensearch.common.settings.ClusterSettings;
import org.opensearch.common.settings.SecureSetting;
import org.opensearch.common.settings.Setting;
import org.opensearch.common.settings.Setting.Property;
import org.opensearch.common.settings.Settings;
import org.opensearch.common.settings.SettingsException;
import org.opensearch.core.common.settings.SecureString;

import java.net.URI;
import java.net.URISyntaxException;
import java.util.List;
import java.util.Locale;

/**
 * The node's settings. URL and secret are here and in the keystore, never in a pipeline, so that nobody who may write
 * a pipeline can point a node at another host.
 */
final class HookSettings {
    /** Where the sidecar listens; the first one that accepts a connection is used. Not dynamic, on purpose. */
    static final Setting<List<URI>> SIDECAR_URLS = Setting.listSetting(
        "pincite.sidecar.urls",
        List.of(),
        HookSettings::parseUrl,
        Property.NodeScope
    );
    /** Bearer token for the sidecar, in the node's keystore. */
    static final Setting<SecureString> SIDECAR_TOKEN = SecureSetting.secureString("pincite.sidecar.token", null);
    /** How long a search waits for the sidecar, in milliseconds. */
    static final Setting<Integer> DEADLINE_MS = Setting.intSetting(
        "pincite.deadline_ms",
        1000,
        1,
        60_000,
        Property.NodeScope,
        Property.Dynamic
    );
    /** How many first-stage hits are reranked (K1). */
    static final Setting<Integer> WINDOW = Setting.intSetting(
        "pincite.window",
        200,
        1,
        RerankRequest.MAX_CANDIDATES,
        Property.NodeScope,
        Property.Dynamic
    );
    /** False leaves every search alone. */
    static final Setting<Boolean> ENABLED = Setting.boolSetting("pincite.enabled", true, Property.NodeScope, Property.Dynamic);

    /** How many calls to the sidecar may wait for a reply at a time, on one node. */
    static final Setting<Integer> IN_FLIGHT_MAX = Setting.intSetting(
        "pincite.in_flight.max",
        SidecarClient.MAX_IN_FLIGHT,
        1,
        10_000,
        Property.NodeScope,
        Property.Dynamic
    );
    /** After how many failures in a row a sidecar is left alone. */
    static final Setting<Integer> BREAKER_FAILURES = Setting.intSetting(
        "pincite.breaker.failures",
        5,
        1,
        1_000_000,
        Property.NodeScope,
        Property.Dynamic
    );
    /** For how long it is left alone before one call tries it, in milliseconds. */
    static final Setting<Integer> BREAKER_OPEN_MS = Setting.intSetting(
        "pincite.breaker.open_ms",
        5_000,
        1,
        3_600_000,
        Property.NodeScope,
        Property.Dynamic
    );
    /** False leaves the k-NN leg out. */
    static final Setting<Boolean> LEGS_KNN = Setting.boolSetting("pincite.legs.knn", true, Property.NodeScope, Property.Dynamic);
    /** False leaves the centroid leg out. */
    static final Setting<Boolean> LEGS_CENTROIDS = Setting.boolSetting(
        "pincite.legs.centroids",
        true,
        Property.NodeScope,
        Property.Dynamic
    );

    private final List<URI> sidecarUrls;
    private volatile int deadlineMs;
    private volatile int window;
    private volatile boolean enabled;
    private volatile int maxInFlight;
    private volatile int breakerFailures;
    private volatile int breakerOpenMs;
    private volatile boolean knnLeg;
    private volatile boolean centroidLeg;

    HookSettings(Settings settings, ClusterSettings clusterSettings) {
        this.sidecarUrls = SIDECAR_URLS.get(settings);
        this.deadlineMs = DEADLINE_MS.get(settings);
        this.window = WINDOW.get(settings);
        this.enabled = ENABLED.get(settings);
        this.maxInFlight = IN_FLIGHT_MAX.get(settings);
        this.breakerFailures = BREAKER_FAILURES.get(settings);
        this.breakerOpenMs = BREAKER_OPEN_MS.get(settings);
        this.knnLeg = LEGS_KNN.get(settings);
        this.centroidLeg = LEGS_CENTROIDS.get(settings);
        clusterSettings.addSettingsUpdateConsumer(DEADLINE_MS, value -> deadlineMs = value);
        clusterSettings.addSettingsUpdateConsumer(WINDOW, value -> window = value);
        clusterSettings.addSettingsUpdateConsumer(ENABLED, value -> enabled = value);
        clusterSettings.addSettingsUpdateConsumer(IN_FLIGHT_MAX, value -> maxInFlight = value);
        clusterSettings.addSettingsUpdateConsumer(BREAKER_FAILURES, value -> breakerFailures = value);
        clusterSettings.addSettingsUpdateConsumer(BREAKER_OPEN_MS, value -> breakerOpenMs = value);
        clusterSettings.addSettingsUpdateConsumer(LEGS_KNN, value -> knnLeg = value);
        clusterSettings.addSettingsUpdateConsumer(LEGS_CENTROIDS, value -> centroidLeg = value);
    }

    static List<Setting<?>> all() {
        return List.of(
            SIDECAR_URLS,
            SIDECAR_TOKEN,
            DEADLINE_MS,
            WINDOW,
            ENABLED,
            IN_FLIGHT_MAX,
            BREAKER_FAILURES,
            BREAKER_OPEN_MS,
            LEGS_KNN,
            LEGS_CENTROIDS
        );
    }

    /**
     * Reads the token while the keystore is open.
     *
     * @return the token, or null when there is none
     * @throws SettingsException when it holds what no HTTP header can carry; the message does not show it
     */
    static String readToken(Settings settings) {
        try (SecureString secret = SIDECAR_TOKEN.get(settings)) {
            if (secret.length() == 0) {
                return null;
            }
            String token = secret.toString();
            if (token.chars().allMatch(c -> c > ' ' && c < 0x7F) == false) {
                throw new SettingsException("[" + SIDECAR_TOKEN.getKey() + "] must be visible ASCII without spaces");
            }
            return token;
        }
    }

    private static URI parseUrl(String text) {
        URI url;
        try {
            url = new URI(text.strip());
        } catch (URISyntaxException e) {
            throw new IllegalArgumentException("[pincite.sidecar.urls] holds what is not a URL");
        }
        String scheme = url.getScheme() == null ? "" : url.getScheme().toLowerCase(Locale.ROOT);
        boolean http = scheme.equals("http") || scheme.equals("https");
        boolean plain = url.getRawUserInfo() == null && url.getRawQuery() == null && url.getRawFragment() == null;
        if (http == false || url.getHost() == null || plain == false || url.getPort() == 0 || url.getPort() > 65_535) {
            throw new IllegalArgumentException(
                "[pincite.sidecar.urls] takes http or https URLs with a host, and without user, query or fragment"
            );
        }
        return url;
    }

    List<URI> sidecarUrls() {
        return sidecarUrls;
    }

    int deadlineMs() {
        return deadlineMs;
    }

    int window() {
        return window;
    }

    boolean enabled() {
        return enabled;
    }

    int maxInFlight() {
        return maxInFlight;
    }

    int breakerFailures() {
        return breakerFailures;
    }

    long breakerOpenNanos() {
        return breakerOpenMs * 1_000_000L;
    }

    boolean knnLeg() {
        return knnLeg;
    }

    boolean centroidLeg() {
        return centroidLeg;
    }
}
