package fasthttpadaptor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
)

// A sender is an http.RoundTripper under test, and the URL of what it sends to.
type sender struct {
	url    string
	client *http.Client
}

// onSenders runs test with net/http's own client and with a Transport, over HTTP/1.1 and over
// HTTP/2, against one handler: what holds for the first must hold for the others.
func onSenders(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, s sender)) {
	t.Helper()
	for _, name := range []string{"net/http", "http1", "http2", "net/http/http2"} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(handler)
			server.EnableHTTP2 = strings.HasSuffix(name, "http2")
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			if server.EnableHTTP2 {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			roots := x509.NewCertPool()
			if server.EnableHTTP2 {
				roots.AddCert(server.Certificate())
			}
			config := &tls.Config{RootCAs: roots}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true}}
			if !strings.HasPrefix(name, "net/http") {
				dialer := &sluice.TCPDialer{} // it has looked nothing up yet
				client.Transport = &Transport{Client: &sluice.Client{TLSConfig: config, HTTP2: sluice.HTTP2Auto, DialContext: dialer.DialContext}}
			}
			defer client.CloseIdleConnections()
			test(t, sender{server.URL, client})
		})
	}
}

// A response has what net/http's has, and the request comes as it was.
func TestTransportSame(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header()["X-Two"] = []string{"a", "b"}
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s %v %q %q %d %v", r.Method, r.RequestURI, r.Host, r.Header["X-Ask"], r.Header.Get("Authorization"), body, r.ContentLength, r.Trailer))
		http.SetCookie(w, &http.Cookie{Name: "c", Value: "1"})
		http.SetCookie(w, &http.Cookie{Name: "d", Value: "2"})
		switch r.URL.Path {
		case "/empty":
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		case "/404":
			http.Error(w, "none", http.StatusNotFound)
		case "/untyped":
			w.Header()["Content-Type"] = nil
			io.WriteString(w, "x")
		case "/103":
			w.WriteHeader(http.StatusEarlyHints)
			io.WriteString(w, "late")
		case "/chunks":
			io.WriteString(w, "one")
			w.(http.Flusher).Flush()
			io.WriteString(w, "two")
		case "/trailers":
			w.Header().Set("Trailer", "X-Sum, X-None")
			io.WriteString(w, "body")
			w.(http.Flusher).Flush()
			w.Header().Set("X-Sum", "7")
			w.Header().Set(http.TrailerPrefix+"X-More", "8")
		default:
			io.WriteString(w, "hello")
		}
	}
	seen := make(map[string]string)
	onSenders(t, handler, func(t *testing.T, s sender) {
		for _, c := range []struct{ method, path, body string }{
			{"GET", "/", ""}, {"HEAD", "/", ""}, {"POST", "/", "payload"}, {"PUT", "/", ""}, {"DELETE", "/empty", ""}, {"PATCH", "/", "x"},
			{"GET", "/empty", ""}, {"GET", "/204", ""}, {"GET", "/304", ""}, {"GET", "/404", ""}, {"GET", "/untyped", ""}, {"GET", "/chunks", ""},
			{"GET", "/103", ""}, {"GET", "/trailers", ""}, {"GET", "/a//b/../c%2Fd?q=1&q=%20", ""}, {"OPTIONS", "/", ""}, {"BREW", "/", "tea"},
		} {
			req, err := http.NewRequest(c.method, s.url+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header["X-Ask"] = []string{"1", "2"}
			req.Header.Set("User-Agent", "test")
			req.Host = "other.example"
			req.URL.User = url.UserPassword("me", "p@ss")
			resp, err := s.client.Do(req)
			if err != nil {
				t.Errorf("%v: %v", c, err)
				continue
			}
			got := describeResponse(t, resp)
			key := fmt.Sprint(c, resp.ProtoMajor)
			if before, ok := seen[key]; ok && before != got {
				t.Errorf("%v: got\n%s\nwant\n%s", c, got, before)
			}
			seen[key] = got
		}
	})
}

// describeResponse reads a response and writes down what a caller sees of it.
func describeResponse(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	var names []string
	for name := range resp.Trailer {
		names = append(names, name)
	}
	slices.Sort(names)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	resp.Header.Del("Date")
	return fmt.Sprintf("%s %d %s %d.%d %v length %d %v close %v uncompressed %v body %q announced %v trailers %v TLS %v",
		resp.Status, resp.StatusCode, resp.Proto, resp.ProtoMajor, resp.ProtoMinor, resp.Header, resp.ContentLength, resp.TransferEncoding,
		resp.Close, resp.Uncompressed, body, names, resp.Trailer, resp.TLS != nil)
}

// Streams go both ways at once over HTTP/2, and one after the other over HTTP/1.1. Trailer fields
// whose values are known at the end of the body arrive.
func TestTransportStreams(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		if r.ProtoMajor == 2 {
			w.(http.Flusher).Flush()
		}
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			fmt.Fprintf(w, "<%s>", lines.Text())
			w.(http.Flusher).Flush()
		}
		fmt.Fprintf(w, " %d %v", r.ContentLength, r.Trailer)
	}
	onSenders(t, handler, func(t *testing.T, s sender) {
		reader, writer := io.Pipe()
		req, err := http.NewRequest(http.MethodPost, s.url, reader)
		if err != nil {
			t.Fatal(err)
		}
		req.Trailer = http.Header{"X-Sum": nil}
		goesBoth := strings.HasSuffix(t.Name(), "http2")
		write := func(text string) { _, _ = io.WriteString(writer, text) }
		if !goesBoth {
			go func() {
				write("one\ntwo\n")
				req.Trailer.Set("X-Sum", "3")
				writer.Close()
			}()
		}
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if goesBoth {
			for _, word := range []string{"one", "two"} {
				write(word + "\n")
				got := make([]byte, len(word)+2)
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != "<"+word+">" {
					t.Fatalf("%q, %v", got, err)
				}
			}
			req.Trailer.Set("X-Sum", "3")
			writer.Close()
		}
		rest, err := io.ReadAll(resp.Body)
		if !strings.HasSuffix(string(rest), " -1 map[X-Sum:[3]]") || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

// closeCounter is a body that counts how often it is closed.
type closeCounter struct {
	io.Reader
	closed atomic.Int32
}

func (c *closeCounter) Close() error {
	c.closed.Add(1)
	return nil
}

// The body of a request is closed, whatever becomes of it. What cannot be sent is an error.
func TestTransportErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close() // refuses
	refusing := "http://" + ln.Addr().String()
	tr := &Transport{}
	for _, change := range []func(r *http.Request){
		func(r *http.Request) { r.URL = nil },
		func(r *http.Request) { r.URL.Scheme = "ftp" },
		func(r *http.Request) { r.URL.Host = "" },
		func(r *http.Request) { r.Method = "GET / HTTP/1.1\r\nX: y\r\n" },
		func(r *http.Request) { r.Header = http.Header{"X y": {"z"}} },
		func(r *http.Request) { r.Header = http.Header{"X": {"a\r\nY: b"}} },
		func(r *http.Request) { r.Trailer = http.Header{"X": {"a\x00"}} },
		func(r *http.Request) {}, // refused
		func(r *http.Request) { *r = *r.WithContext(ended()) },
	} {
		body := &closeCounter{Reader: strings.NewReader("x")}
		req, err := http.NewRequest(http.MethodPost, refusing, body)
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		resp, err := tr.RoundTrip(req)
		if err == nil || resp != nil || body.closed.Load() == 0 {
			t.Errorf("%+v: %v, closed %d times", req, err, body.closed.Load())
		}
		if req.Context().Err() != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("an ended context: %v", err)
		}
	}
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// The context ends the wait for a response, and the reading of its body; closing the body ends a
// Read that waits. A time-out says that it is one.
func TestTransportEnds(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/part" {
			io.WriteString(w, "part")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}
	onSenders(t, handler, func(t *testing.T, s sender) {
		ctx, cancel := context.WithCancelCause(context.Background())
		go func() { cancel(nil) }()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
		if _, err := s.client.Do(req); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		limited := *s.client
		limited.Timeout = 1e6
		var failed *url.Error
		if _, err := limited.Get(s.url); !errors.As(err, &failed) || !failed.Timeout() {
			t.Errorf("time-out: %v", err)
		}
		for _, end := range []func(cancel func(), body io.Closer){
			func(cancel func(), _ io.Closer) { cancel() },
			func(_ func(), body io.Closer) { body.Close() },
		} {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/part", nil)
			resp, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 4)
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != "part" {
				t.Errorf("%q, %v", got, err)
			}
			go end(cancel, resp.Body)
			if n, err := resp.Body.Read(got); n != 0 || err == nil || err == io.EOF {
				t.Errorf("a Read that waits: %d, %v", n, err)
			}
			resp.Body.Close()
			if _, err := resp.Body.Read(got); err == nil {
				t.Error("a Read after Close succeeds")
			}
		}
	})
}

// A body that breaks off is no whole one, and a connection is used again after a whole one.
func TestTransportConnections(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cut" {
			io.WriteString(w, "part")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, r.RemoteAddr)
	}
	onSenders(t, handler, func(t *testing.T, s sender) {
		var peers [2]string
		for i := range peers {
			resp, err := s.client.Get(s.url)
			if err != nil {
				t.Fatal(err)
			}
			peer, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			peers[i] = string(peer)
		}
		if peers[0] != peers[1] || peers[0] == "" {
			t.Errorf("connections %q", peers)
		}
		resp, err := s.client.Get(s.url + "/cut")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err == nil || string(body) != "part" {
			t.Errorf("%q, %v", body, err)
		}
	})
}

// The functions of a trace are called in their order, on a new connection and on one that is
// used again.
func TestTransportTrace(t *testing.T) {
	onSenders(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, s sender) {
		if strings.HasPrefix(t.Name(), "TestTransportTrace/net") {
			t.Skip("it has more of them")
		}
		host, first := "localhost", "get dns found dial dialed got:false wrote first"
		if strings.HasSuffix(t.Name(), "http2") {
			host, first = "127.0.0.1", "get dial dialed tls secured got:false wrote first"
		}
		for _, want := range []string{first, "get got:true wrote first"} {
			var called []string
			note := func(text string) { called = append(called, text) }
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				GetConn:              func(string) { note("get") },
				GotConn:              func(i httptrace.GotConnInfo) { note(fmt.Sprint("got:", i.Reused)) },
				DNSStart:             func(httptrace.DNSStartInfo) { note("dns") },
				DNSDone:              func(httptrace.DNSDoneInfo) { note("found") },
				ConnectStart:         func(string, string) { note("dial") },
				ConnectDone:          func(string, string, error) { note("dialed") },
				TLSHandshakeStart:    func() { note("tls") },
				TLSHandshakeDone:     func(tls.ConnectionState, error) { note("secured") },
				WroteRequest:         func(httptrace.WroteRequestInfo) { note("wrote") },
				GotFirstResponseByte: func() { note("first") },
			})
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.Replace(s.url, "127.0.0.1", host, 1), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			describeResponse(t, resp)
			if got := strings.Join(called, " "); got != want {
				t.Errorf("called %s, want %s", got, want)
			}
		}
	})
}

// A redirect is the http.Client's to follow, with its jar and its body.
func TestTransportRedirects(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
			return
		}
		io.Copy(w, r.Body)
	}
	onSenders(t, handler, func(t *testing.T, s sender) {
		resp, err := s.client.Post(s.url, "text/plain", bytes.NewReader([]byte("again")))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, _ := io.ReadAll(resp.Body); string(body) != "again" || resp.Request.URL.Path != "/there" {
			t.Errorf("%q from %s", body, resp.Request.URL)
		}
	})
}

// A server that switches protocols is an error: there is no connection to give.
func TestTransportSwitched(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Upgrade", "x")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}))
	defer server.Close()
	var tr Transport
	defer tr.CloseIdleConnections()
	req, _ := http.NewRequest(http.MethodGet, server.URL, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "x")
	if _, err := tr.RoundTrip(req); !errors.Is(err, ErrSwitched) {
		t.Errorf("%v", err)
	}
}
