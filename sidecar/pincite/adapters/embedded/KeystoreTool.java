import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.opensearch.common.settings.KeyStoreWrapper;

/**
 * Writes a node's keystore: {@code java -cp "lib/*" KeystoreTool.java CONF_DIR < entries}.
 *
 * <p>Each line of standard input is a setting's name, a tab, and its value, so that no secret is on a
 * command line. OpenSearch's own keystore tool is not published as an artifact; the class behind it is
 * part of the server.
 */
public class KeystoreTool {
    public static void main(String[] args) throws Exception {
        KeyStoreWrapper keystore = KeyStoreWrapper.create();
        // Package-private in the server, and the only way in.
        Method set = KeyStoreWrapper.class.getDeclaredMethod("setString", String.class, char[].class);
        set.setAccessible(true);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            int tab = line.indexOf('\t');
            set.invoke(keystore, line.substring(0, tab), line.substring(tab + 1).toCharArray());
        }
        keystore.save(Path.of(args[0]), new char[0]);
    }
}
