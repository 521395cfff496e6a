package peers

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
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
	for _, target := range []string{CPUTarget, InstantTarget} {
		mixed([]byte(target))
	}
	begin = time.Now()
	mixed([]byte(SleepTarget))
	if slept := time.Since(begin); slept < time.Millisecond {
		t.Errorf("%s slept for %v", SleepTarget, slept)
	}
}

func TestSpinDependsOnItsNumber(t *testing.T) {
	if Spin(1) == Spin(2) && Spin(2) == Spin(3) {
		t.Error("the same result after 1, 2 and 3 rounds of hashing")
	}
}

// Every kind answers the same over TLS 1.3, which a client insists on.
func TestTLS(t *testing.T) {
	for _, kind := range []string{Sluice, PerConn, Epoll, FastHTTP, FastHTTPReduced, NetHTTP} {
		t.Run(kind, func(t *testing.T) {
			server, err := New(kind, Options{TLS: true})
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- server.Serve(ln) }()
			transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}}
			client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
			resp, err := client.Get("https://" + ln.Addr().String() + "/")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(body) != Body {
				t.Errorf("body %q, %v", body, err)
			}
			transport.CloseIdleConnections()
			ln.Close()
			<-served
		})
	}
}

func TestUnknownKind(t *testing.T) {
	if _, err := New("gopher", Options{}); err == nil {
		t.Error("no error")
	}
}
