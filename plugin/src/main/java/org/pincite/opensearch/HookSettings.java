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

    private final List<URI> sidecarUrls;
    private volatile int deadlineMs;
    private volatile int window;
    private volatile boolean enabled;

    HookSettings(Settings settings, ClusterSettings clusterSettings) {
        this.sidecarUrls = SIDECAR_URLS.get(settings);
        this.deadlineMs = DEADLINE_MS.get(settings);
        this.window = WINDOW.get(settings);
        this.enabled = ENABLED.get(settings);
        clusterSettings.addSettingsUpdateConsumer(DEADLINE_MS, value -> deadlineMs = value);
        clusterSettings.addSettingsUpdateConsumer(WINDOW, value -> window = value);
        clusterSettings.addSettingsUpdateConsumer(ENABLED, value -> enabled = value);
    }

    static List<Setting<?>> all() {
        return List.of(SIDECAR_URLS, SIDECAR_TOKEN, DEADLINE_MS, WINDOW, ENABLED);
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
}
