package interop_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// The client against a real nginx. See upstream_httpbin_test.go for another
// server.

// bigFile is the content of a file that is much larger than all buffers.
func bigFile() string {
	content := make([]byte, 24<<20)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(content) // cannot fail
	return string(content)
}

// someFiles are what the tests ask for.
func someFiles() map[string]string {
	return map[string]string{
		"a.txt":    "hello nginx\n",
		"long.txt": strings.Repeat("all work and no play\n", 10_000),
		"ssi.txt":  `before <!--# echo var="request_method" --> behind`,
		"empty":    "",
	}
}

// TestNginxFiles: bodies with lengths, in chunks, compressed, of no bytes and
// without them, over connections that are used again.
func TestNginxFiles(t *testing.T) {
	files := someFiles()
	n := startNginx(t, "", files)
	var client sluice.Client
	made := counted(&client)
	gzipped := []string{"Accept-Encoding", "gzip"}
	for range 3 {
		for _, c := range []struct {
			inquiry
			status          int
			body            string
			header, header2 string // "Name: value"
		}{
			{inquiry{url: "/a.txt"}, 200, files["a.txt"], "Content-Type: text/plain", "Content-Length: 12"},
			{inquiry{url: "/a.txt", method: "HEAD"}, 200, "", "Content-Length: 12", ""},
			{inquiry{url: "/long.txt"}, 200, files["long.txt"], "", ""},
			{inquiry{url: "/empty"}, 200, "", "Content-Length: 0", ""},
			{inquiry{url: "/gzip/long.txt", fields: gzipped}, 200, files["long.txt"], "Content-Encoding: gzip", "Transfer-Encoding: chunked"},
			{inquiry{url: "/gzip/long.txt"}, 200, files["long.txt"], "Content-Encoding: ", "Content-Length: 210000"},
			{inquiry{url: "/gzip/long.txt", method: "HEAD", fields: gzipped}, 200, "", "Content-Encoding: gzip", ""},
			{inquiry{url: "/ssi/ssi.txt"}, 200, "before GET behind", "X-Trailer: behind", "Transfer-Encoding: chunked"},
			{inquiry{url: "/none"}, 404, "", "Content-Type: text/html", ""},
			{inquiry{url: "/a.txt", fields: []string{"Range", "bytes=6-10"}}, 206, "nginx", "Content-Range: bytes 6-10/12", ""},
			{inquiry{url: "/a.txt", fields: []string{"Range", "bytes=100-"}}, 416, "", "Content-Range: bytes */12", ""},
			{inquiry{url: "/a.txt", fields: []string{"If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"}}, 304, "", "", ""},
			{inquiry{url: "/a.txt", method: "POST", body: "data"}, 405, "", "", ""},
			{inquiry{url: "/echo", method: "POST", body: "data", fields: []string{"X-Echo", "é"}}, 200, "POST é", "", ""},
			{inquiry{url: "/echo", method: "PURGE"}, 200, "PURGE ", "", ""},
			{inquiry{url: "/echo", method: "PUT", body: "data", fields: []string{"Expect", "100-continue"}}, 200, "PUT ", "", ""},
		} {
			name := c.method + " " + c.url
			c.url = n.url(c.url)
			r := c.must(t, &client, c.status)
			if r.body != c.body && c.status < 400 {
				t.Errorf("%s: %d bytes, %.100q", name, len(r.body), r.body)
			}
			for _, line := range []string{c.header, c.header2} {
				key, want, _ := strings.Cut(line, ": ")
				if key == "Transfer-Encoding" {
					key, want = "Content-Length", "" // that is how it is seen
				}
				if key != "" && r.header(key) != want {
					t.Errorf("%s: %s is %q, want %q", name, key, r.header(key), want)
				}
			}
		}
	}
	t.Logf("%d connections", made())
	if got := made(); got > 4 { // nginx closes some behind 400 and the like
		t.Errorf("%d connections were made", got)
	}
}

// TestNginxLargeBodies: both ways, from memory and as streams.
func TestNginxLargeBodies(t *testing.T) {
	big := bigFile()
	n := startNginx(t, "", map[string]string{"big.bin": big})
	buffered, streamed := &sluice.Client{}, &sluice.Client{StreamResponseBody: true}
	want := sha256.Sum256([]byte(big))
	check := func(what string, got [32]byte) {
		t.Helper()
		if got != want {
			t.Errorf("%s: the content differs", what)
		}
	}
	r := inquiry{url: n.url("/big.bin")}.must(t, buffered, 200)
	check("GET", sha256.Sum256([]byte(r.body)))
	check("streamed GET", digestOfStream(t, streamed, n.url("/big.bin")))

	for name, prepare := range map[string]func(req *sluice.Request){
		"memory":           func(req *sluice.Request) { req.SetBodyString(big) },
		"stream":           func(req *sluice.Request) { req.SetBodyStream(strings.NewReader(big), len(big)) },
		"stream in chunks": func(req *sluice.Request) { req.SetBodyStream(strings.NewReader(big), -1) },
	} {
		url := n.url("/dav/" + strings.ReplaceAll(name, " ", "-"))
		inquiry{method: "PUT", url: url, prep: prepare}.must(t, buffered, 201)
		check(name, digestOfStream(t, streamed, url))
		for range 3 {
			r, err := inquiry{method: "PUT", url: n.url("/small/x"), prep: prepare}.send(buffered, 0)
			if err != nil || r.status != 413 {
				t.Errorf("%s, too much of it: %v (%v)", name, r, err)
			}
		}
		inquiry{method: "POST", url: n.url("/echo")}.must(t, buffered, 200)
	}
	if open, idle := streamed.ConnsCount(), streamed.IdleConnsCount(); open != 1 || idle != 1 {
		t.Errorf("%d connections, %d idle, behind streams that were read", open, idle)
	}
}

// digestOfStream reads a response while it comes.
func digestOfStream(t *testing.T, c *sluice.Client, url string) (sum [32]byte) {
	t.Helper()
	var req sluice.Request
	var resp sluice.Response
	req.SetRequestURI(url)
	if err := c.DoTimeout(&req, &resp, upstreamPatience); err != nil {
		t.Fatal(err)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, resp.BodyStream()); err != nil || resp.StatusCode() != 200 {
		t.Fatalf("%s: status %d: %v", url, resp.StatusCode(), err)
	}
	_ = resp.CloseBodyStream() // it was read
	return [32]byte(hash.Sum(nil))
}

// TestNginxTLS: connections are kept, and sessions resumed.
func TestNginxTLS(t *testing.T) {
	files := someFiles()
	n := startNginx(t, "", files)
	client := sluice.Client{TLSConfig: n.trust}
	made := counted(&client)
	base := "https://" + n.TLS
	for range 20 {
		if r := (inquiry{url: base + "/long.txt"}).must(t, &client, 200); r.body != files["long.txt"] {
			t.Errorf("%d bytes", len(r.body))
		}
		inquiry{method: "POST", url: base + "/echo", body: "data"}.must(t, &client, 200)
	}
	// Tickets come with or behind the first answer, and may cost a connection.
	if got := made(); got > 2 {
		t.Errorf("%d connections were made", got)
	}
	for range 3 {
		inquiry{url: base + "/once/a.txt"}.must(t, &client, 200)
	}
	stranger := sluice.Client{TLSConfig: &tls.Config{ServerName: "other.test", RootCAs: n.trust.RootCAs}}
	if _, _, err := stranger.Get(nil, base+"/a.txt"); err == nil {
		t.Error("a certificate for another name is taken")
	}
	if _, _, err := new(sluice.Client).Get(nil, base+"/a.txt"); err == nil {
		t.Error("a certificate of nobody is taken")
	}
	if r, err := (inquiry{url: "http://" + n.TLS + "/"}).send(&client, 0); err != nil || r.status != 400 {
		t.Errorf("plain text to the TLS port: %v (%v)", r, err)
	}
}

// TestNginxClosesConnections: by count, by time, at once; nothing fails by that.
func TestNginxClosesConnections(t *testing.T) {
	n := startNginx(t, "", someFiles())
	t.Run("by count", func(t *testing.T) {
		var client sluice.Client
		made := counted(&client)
		for range 30 {
			inquiry{url: n.url("/few/a.txt")}.must(t, &client, 200)
		}
		if got := made(); got != 10 {
			t.Errorf("%d connections for 30 requests, 3 each", got)
		}
	})
	t.Run("at once", func(t *testing.T) {
		var client sluice.Client
		for range 10 {
			inquiry{url: n.url("/once/a.txt")}.must(t, &client, 200)
		}
		if got := client.ConnsCount(); got != 0 {
			t.Errorf("%d connections are kept", got)
		}
	})
	t.Run("idle", func(t *testing.T) {
		var client sluice.Client
		for range 10 {
			inquiry{url: n.url("/brief/a.txt")}.must(t, &client, 200)
			n.awaitIdleEnd()
			inquiry{method: "POST", url: n.url("/echo"), body: "data"}.must(t, &client, 200)
			client.CloseIdleConnections()
		}
	})
	t.Run("just now", func(t *testing.T) {
		var client sluice.Client
		made := counted(&client)
		for range 150 {
			inquiry{url: n.url("/brief/a.txt")}.must(t, &client, 200)
			time.Sleep(8*time.Millisecond + rand.N(5*time.Millisecond)) // about as long as nginx waits
		}
		t.Logf("150 requests on %d connections", made())
	})
}

// awaitIdleEnd waits until nginx has closed all connections but the one that
// asks for that.
func (n *nginx) awaitIdleEnd() {
	n.t.Helper()
	var client sluice.Client
	defer client.CloseIdleConnections()
	for end := time.Now().Add(upstreamPatience); ; time.Sleep(2 * time.Millisecond) {
		_, body, err := client.Get(nil, n.url("/status"))
		if err == nil && strings.HasPrefix(string(body), "Active connections: 1 \n") {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("%q (%v)", body, err)
		}
	}
}

// TestNginxReload: what is idempotent does not fail when the workers end.
func TestNginxReload(t *testing.T) {
	files := someFiles()
	n := startNginx(t, "", files)
	var client sluice.Client
	stop := make(chan struct{})
	var running sync.WaitGroup
	var counts [16]int
	for i := range counts {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				path := []string{"a.txt", "long.txt", "ssi/ssi.txt", "gzip/long.txt"}[counts[i]%4]
				r, err := inquiry{url: n.url("/" + path), fields: []string{"Accept-Encoding", "gzip"}}.send(&client, 0)
				if err != nil || r.status != 200 || len(r.body) == 0 {
					t.Errorf("%s, request %d: %+v: %v", path, counts[i], r, err)
					return
				}
				counts[i]++
			}
		})
	}
	for range 6 {
		n.reload()
	}
	close(stop)
	running.Wait()
	sum := 0
	for _, c := range counts {
		sum += c
	}
	t.Logf("%d requests", sum)
	if sum < len(counts) {
		t.Error("next to nothing was requested")
	}
}

// TestNginxProxyStreams: nginx before another server. What that sends arrives
// while it goes on.
func TestNginxProxyStreams(t *testing.T) {
	goOn := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v|", len(body), err)
		w.(http.Flusher).Flush()
		<-goOn
		fmt.Fprint(w, "the rest")
	}))
	defer upstream.Close()
	n := startNginx(t, upstream.Listener.Addr().String(), nil)
	client := sluice.Client{StreamResponseBody: true}
	var req sluice.Request
	var resp sluice.Response
	req.Header.SetMethod("POST")
	req.SetRequestURI(n.url("/proxied/"))
	req.SetBodyStream(bytes.NewReader(make([]byte, 3<<20)), -1)
	if err := client.DoTimeout(&req, &resp, upstreamPatience); err != nil {
		t.Fatal(err)
	}
	const want = "3145728 <nil>|"
	first := make([]byte, len(want))
	if _, err := io.ReadFull(resp.BodyStream(), first); err != nil || string(first) != want {
		t.Errorf("%q (%v), want %q", first, err, want)
	}
	close(goOn)
	rest, err := io.ReadAll(resp.BodyStream())
	if err != nil || string(rest) != "the rest" {
		t.Errorf("%q (%v)", rest, err)
	}
}
