import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

/**
 * The checks with java.net.http. In plain text it asks for Upgrade: h2c, and gets HTTP/1.1.
 * Usage: java Client URL UPLOAD
 */
public class Client {
    static HttpClient client;
    static String base;

    static HttpRequest.Builder to(String path) {
        return HttpRequest.newBuilder(URI.create(base + path));
    }

    static HttpResponse<String> ask(HttpRequest.Builder request) throws Exception {
        return client.send(request.build(), BodyHandlers.ofString());
    }

    static void check(String name, Callable<Object> f) {
        try {
            Object got = f.call();
            System.out.println(Boolean.TRUE.equals(got) ? "ok " + name : "FAIL " + name + ": " + got);
        } catch (Exception e) {
            System.out.println("FAIL " + name + ": " + e);
        }
    }

    static Callable<Object> text(HttpRequest.Builder request, String start) {
        return () -> {
            String got = ask(request).body();
            return got.startsWith(start) ? (Object) true : got;
        };
    }

    static Callable<Object> empty(int status) {
        return () -> {
            HttpResponse<String> r = ask(to("/" + status));
            return r.statusCode() == status && r.body().isEmpty() ? (Object) true : r;
        };
    }

    public static void main(String[] args) throws Exception {
        base = args[0];
        byte[] large = Files.readAllBytes(Path.of(args[1]));
        SSLContext ssl = SSLContext.getInstance("TLS");
        ssl.init(null, new TrustManager[] {new X509TrustManager() {
            public void checkClientTrusted(X509Certificate[] chain, String type) {}
            public void checkServerTrusted(X509Certificate[] chain, String type) {}
            public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }
        }}, null);
        client = HttpClient.newBuilder().sslContext(ssl).version(HttpClient.Version.HTTP_2).build();
        String protocol = base.startsWith("https") ? "HTTP_2" : "HTTP_1_1";

        check("get", () -> {
            HttpResponse<String> r = ask(to("/hello"));
            return r.body().equals("hello") && r.version().toString().equals(protocol) ? (Object) true : r.version();
        });
        check("post of 1 KB", text(to("/echo").POST(BodyPublishers.ofByteArray(large, 0, 1024)), "1024 "));
        check("post of 5 MB", text(to("/echo").POST(BodyPublishers.ofByteArray(large)), large.length + " "));
        check("head", () -> {
            HttpResponse<String> r = ask(to("/hello").method("HEAD", BodyPublishers.noBody()));
            return r.headers().firstValue("content-length").get().equals("5") && r.body().isEmpty() ? (Object) true : r;
        });
        check("204", empty(204));
        check("304", empty(304));
        check("large", () -> {
            int got = client.send(to("/large").build(), BodyHandlers.ofByteArray()).body().length;
            return got == large.length ? (Object) true : got;
        });
        check("stream", text(to("/stream"), "line 0\nline 1"));
        check("trailers", text(to("/trailers"), "with trailers"));
        check("hints", protocol.equals("HTTP_2") ? text(to("/hello"), "hello") : text(to("/hints"), "hinted"));
        check("reset", () -> {
            client.send(to("/slow").build(), BodyHandlers.ofInputStream()).body().close();
            return true;
        });
        check("parallel", () -> {
            var all = new ArrayList<CompletableFuture<HttpResponse<String>>>();
            for (int i = 0; i < 100; i++) {
                all.add(client.sendAsync(to("/stream").build(), BodyHandlers.ofString()));
            }
            for (var f : all) {
                String got = f.get(30, TimeUnit.SECONDS).body();
                if (!got.endsWith("line 9\n")) {
                    return got;
                }
            }
            return true;
        });
        System.out.println("end");
        System.exit(0);
    }
}
