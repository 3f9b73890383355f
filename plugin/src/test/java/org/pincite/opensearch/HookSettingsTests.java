package org.pincite.opensearch;

import org.opensearch.common.settings.MockSecureSettings;
import org.opensearch.common.settings.Settings;
import org.opensearch.common.settings.SettingsException;
import org.opensearch.test.OpenSearchTestCase;

import java.net.URI;
import java.util.List;

public class HookSettingsTests extends OpenSearchTestCase {

    private static Settings urls(String... urls) {
        return Settings.builder().putList("pincite.sidecar.urls", urls).build();
    }

    private static String token(String value) {
        MockSecureSettings secure = new MockSecureSettings();
        secure.setString("pincite.sidecar.token", value);
        return HookSettings.readToken(Settings.builder().setSecureSettings(secure).build());
    }

    public void testUrls() {
        assertEquals(List.of(), HookSettings.SIDECAR_URLS.get(Settings.EMPTY));
        assertEquals(
            List.of(URI.create("http://127.0.0.1:8085"), URI.create("https://sidecar.example/base/"), URI.create("http://[::1]:1")),
            HookSettings.SIDECAR_URLS.get(urls("http://127.0.0.1:8085", "https://sidecar.example/base/", "http://[::1]:1"))
        );
        for (String bad : List.of(
            "file:///etc/passwd",
            "ftp://host",
            "host:8085",
            "//host",
            "http://",
            "http:///path",
            "http://user:secret@host",
            "http://host?x=1",
            "http://host#x",
            "http://host:99999",
            "http://a b",
            "jar:http://host!/"
        )) {
            expectThrows(IllegalArgumentException.class, () -> HookSettings.SIDECAR_URLS.get(urls(bad)));
        }
    }

    public void testUrlsAndTokenCannotBeChangedOverTheApi() {
        assertFalse(HookSettings.SIDECAR_URLS.isDynamic());
        assertTrue(HookSettings.DEADLINE_MS.isDynamic());
        assertTrue(HookSettings.ENABLED.isDynamic());
        assertTrue(HookSettings.WINDOW.isDynamic());
        expectThrows(
            IllegalArgumentException.class,
            () -> HookSettings.SIDECAR_TOKEN.get(Settings.builder().put("pincite.sidecar.token", "x").build())
        );
    }

    public void testToken() {
        assertNull(HookSettings.readToken(Settings.EMPTY));
        assertNull(token(""));
        assertEquals("abc-._~+/=1", token("abc-._~+/=1"));
        for (String bad : List.of("two words", "new\nline", "tökén")) {
            SettingsException e = expectThrows(SettingsException.class, () -> token(bad));
            assertFalse(e.getMessage().contains(bad));
        }
    }

    public void testRanges() {
        assertEquals(Integer.valueOf(1000), HookSettings.DEADLINE_MS.get(Settings.EMPTY));
        assertEquals(Integer.valueOf(200), HookSettings.WINDOW.get(Settings.EMPTY));
        for (String window : List.of("0", "1001")) {
            Settings settings = Settings.builder().put("pincite.window", window).build();
            expectThrows(IllegalArgumentException.class, () -> HookSettings.WINDOW.get(settings));
        }
    }
}
