import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

/**
 * The tour with SSLSocket. Its keys change by jdk.tls.keyLimits, a security property.
 * Usage: java TLSClient HOST PORT [version=1.2] [suite=NAME] [cert=FILE key=FILE]
 */
public class TLSClient {
    static final int UPLOAD = 1 << 20, DOWNLOAD = 10 << 20;
    static String host;
    static int port;
    static final Map<String, String> options = new HashMap<>();
    static SSLContext context;

    static byte[] pattern(int size) {
        byte[] p = new byte[size];
        for (int i = 0; i < size; i++) {
            p[i] = (byte) (i % 251);
        }
        return p;
    }

    static KeyManager[] keys() throws Exception {
        if (!options.containsKey("cert")) {
            return null;
        }
        Certificate cert;
        try (InputStream in = Files.newInputStream(Path.of(options.get("cert")))) {
            cert = CertificateFactory.getInstance("X.509").generateCertificate(in);
        }
        String pem = Files.readString(Path.of(options.get("key"))).replaceAll("-----[A-Z ]+-----|\\s", "");
        PrivateKey key = KeyFactory.getInstance(cert.getPublicKey().getAlgorithm())
            .generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem)));
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        store.setKeyEntry("client", key, new char[0], new Certificate[] {cert});
        KeyManagerFactory factory = KeyManagerFactory.getInstance("NewSunX509");
        factory.init(store, new char[0]);
        return factory.getKeyManagers();
    }

    static SSLSocket connect() throws IOException {
        SSLSocket c = (SSLSocket) context.getSocketFactory().createSocket(host, port);
        c.setSoTimeout(30000);
        if ("1.2".equals(options.get("version"))) {
            c.setEnabledProtocols(new String[] {"TLSv1.2"});
        }
        if (options.containsKey("suite")) {
            c.setEnabledCipherSuites(new String[] {options.get("suite")});
        }
        c.startHandshake();
        return c;
    }

    static byte[] ask(SSLSocket c, String method, String path, byte[] body, String version) throws IOException {
        OutputStream out = c.getOutputStream();
        out.write((method + " " + path + " HTTP/" + version + "\r\nHost: x\r\nContent-Length: " + body.length + "\r\n\r\n")
            .getBytes(StandardCharsets.ISO_8859_1));
        out.write(body);
        InputStream in = c.getInputStream();
        var head = new StringBuilder();
        while (head.indexOf("\r\n\r\n") < 0) {
            int b = in.read();
            if (b < 0) {
                throw new EOFException("the connection ended");
            }
            head.append((char) b);
        }
        if (!head.toString().split(" ")[1].equals("200")) {
            throw new IOException(head.toString());
        }
        int size = -1;
        for (String line : head.toString().split("\r\n")) {
            if (line.toLowerCase().startsWith("content-length:")) {
                size = Integer.parseInt(line.split(":")[1].trim());
            }
        }
        return size < 0 ? in.readAllBytes() : in.readNBytes(size);
    }

    static void who(SSLSocket c, int count) throws IOException {
        for (int i = 0; i < count; i++) {
            System.out.println("who " + new String(ask(c, "GET", "/who", new byte[0], "1.1"), StandardCharsets.UTF_8));
        }
    }

    static void transfer(SSLSocket c) throws IOException {
        ask(c, "POST", "/upload", pattern(UPLOAD), "1.1");
        System.out.println("ok upload");
        if (!Arrays.equals(ask(c, "GET", "/download", new byte[0], "1.1"), pattern(DOWNLOAD))) {
            throw new IOException("the download differs");
        }
        System.out.println("ok download");
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("com.sun.net.ssl.requireCloseNotify", "true");
        host = args[0];
        port = Integer.parseInt(args[1]);
        for (String argument : Arrays.asList(args).subList(2, args.length)) {
            options.put(argument.split("=", 2)[0], argument.split("=", 2)[1]);
        }
        context = SSLContext.getInstance("TLS");
        context.init(keys(), new TrustManager[] {new X509TrustManager() {
            public void checkClientTrusted(X509Certificate[] chain, String type) {}
            public void checkServerTrusted(X509Certificate[] chain, String type) {}
            public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
        }}, null);

        SSLSocket c = connect();
        who(c, 20);
        System.out.println("pause");
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        who(c, 20);
        transfer(c);
        who(c, 100); // passes the limit
        ask(c, "POST", "/upload", pattern(UPLOAD), "1.1");
        c.shutdownOutput();
        if (c.getInputStream().read() >= 0) {
            throw new IOException("data after the end");
        }
        System.out.println("ok closed");
        c.close();

        System.out.println("next");
        c = connect();
        who(c, 1);
        if (!Arrays.equals(ask(c, "GET", "/bye", new byte[0], "1.0"), "bye".getBytes())) {
            throw new IOException("another answer");
        }
        System.out.println("ok bye");
        System.out.println("end");
        System.exit(0);
    }
}
