package peers

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseKinds(t *testing.T) {
	offered := []string{PerConn, Epoll, FastHTTP}
	got, err := ParseKinds("epoll, perconn,epoll", offered)
	if err != nil || !slices.Equal(got, []string{Epoll, PerConn}) {
		t.Errorf("kinds %q, %v", got, err)
	}
	for _, bad := range []string{"", "gopher", "perconn,", NetHTTP} {
		if got, err := ParseKinds(bad, offered); err == nil {
			t.Errorf("ParseKinds(%q) = %q without an error", bad, got)
		}
	}
}

func TestHandlersWork(t *testing.T) {
	if (Handler{}).work() != nil {
		t.Error("the instant handler works")
	}
	begin := time.Now()
	Handler{Sleep: time.Millisecond}.work()([]byte("/"))
	if slept := time.Since(begin); slept < time.Millisecond {
		t.Errorf("slept for %v", slept)
	}
	mixed := Handler{Mixed: true, Sleep: time.Millisecond, Spins: 1}.work()
	for _, target := range []string{CPUPath, InstantPath} {
		mixed([]byte(target))
	}
	begin = time.Now()
	mixed([]byte(SleepPath))
	if slept := time.Since(begin); slept < time.Millisecond {
		t.Errorf("%s slept for %v", SleepPath, slept)
	}
}

func TestSpinDependsOnItsNumber(t *testing.T) {
	if Spin(1) == Spin(2) && Spin(2) == Spin(3) {
		t.Error("the same result after 1, 2 and 3 rounds of hashing")
	}
}

// Every kind answers the same over TLS 1.3, which a client insists on.
func TestTLS(t *testing.T) {
	for _, kind := range everyKind() {
		t.Run(kind, func(t *testing.T) {
			addr := serveKind(t, kind, Options{TLS: true})
			transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}}
			client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
			resp, err := client.Get("https://" + addr + Target)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(body) != Body {
				t.Errorf("body %q, %v", body, err)
			}
			transport.CloseIdleConnections()
		})
	}
}

func everyKind() []string {
	return []string{Sluice, PerConn, Epoll, FastHTTP, FastHTTPReduced, NetHTTP, Fiber, Hertz}
}

// serveKind starts a server that ends with the test process: not every kind
// ends with its listener.
func serveKind(t *testing.T, kind string, o Options) (addr string) {
	if OwnsListener(kind) {
		return serveAddress(t, kind, o)
	}
	server, err := New(kind, o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

// serveAddress is serveKind for a kind that takes no listener.
func serveAddress(t *testing.T, kind string, o Options) (addr string) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = ln.Addr().String()
	ln.Close()
	failed := make(chan error, 1)
	go func() { failed <- ListenAndServe(kind, addr, o) }()
	for {
		if c, err := net.Dial("tcp4", addr); err == nil {
			c.Close()
			return addr
		}
		select {
		case err := <-failed:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
}

// Every kind answers the same, and refuses a body that it does not expect.
func TestAnswers(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file.txt"), Text(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		answer Answer
		want   []byte
	}{
		{AnswerHello, []byte(Body)}, {AnswerLarge, Large()}, {AnswerJSON, JSONBody()}, {AnswerGzip, Text()}, {AnswerFile, Text()},
	} {
		for _, kind := range append(everyKind(), Gnet) {
			if OwnsListener(kind) && (c.answer == AnswerGzip || c.answer == AnswerFile) {
				if err := ListenAndServe(kind, "127.0.0.1:0", Options{Answer: c.answer}); !errors.Is(err, ErrCannot) {
					t.Errorf("%s, %s: %v", kind, c.answer, err)
				}
				continue
			}
			if c.answer == AnswerGzip && (kind == NetHTTP || kind == Hertz) {
				if _, err := New(kind, Options{Answer: AnswerGzip}); err == nil {
					t.Errorf("%s says that it compresses", kind)
				}
				continue
			}
			t.Run(string(c.answer)+" "+kind, func(t *testing.T) {
				checkAnswer(t, serveKind(t, kind, Options{Answer: c.answer, Root: root}), c.answer, c.want)
			})
		}
	}
}

func checkAnswer(t *testing.T, addr string, answer Answer, want []byte) {
	transport := &http.Transport{} // asks for gzip, and decodes it
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + addr + "/file.txt" + Query)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != 200 || !bytes.Equal(body, want) || resp.Uncompressed != (answer == AnswerGzip) {
		t.Errorf("status %d, %d bytes of %d, compressed %v, %v", resp.StatusCode, len(body), len(want), resp.Uncompressed, err)
	}
	if answer == AnswerFile {
		return
	}
	for _, bad := range []struct{ target, agent, body string }{{Target, "test", "unexpected"}, {Target, "", ""}, {"/articles", "test", ""}, {"/articles?page=3", "test", ""}} {
		request, err := http.NewRequest(http.MethodPost, "http://"+addr+bad.target, strings.NewReader(bad.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("User-Agent", bad.agent)
		if resp, err = client.Do(request); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 400 {
			t.Errorf("status %d for %+v", resp.StatusCode, bad)
		}
	}
}

func TestUnknownKind(t *testing.T) {
	if _, err := New("gopher", Options{}); err == nil {
		t.Error("no error")
	}
}

func TestCalibrate(t *testing.T) {
	short, err := Calibrate(time.Millisecond)
	if err != nil || short < 1 {
		t.Fatalf("%d spins, %v", short, err)
	}
	if long, err := Calibrate(time.Second); err != nil || long < 50*short {
		t.Errorf("%d spins for 1 ms, %d for 1 s, %v", short, long, err)
	}
}
