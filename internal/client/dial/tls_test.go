package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

// serverNames makes a handshake to addr and returns the name that the server is asked for.
func serverNames(t *testing.T, config *tls.Config, addr string) (string, error) {
	t.Helper()
	mine, other := net.Pipe()
	defer mine.Close()
	var name string
	refused, ended := errors.New("refused"), make(chan bool)
	go func() {
		defer close(ended)
		defer other.Close()
		_ = tls.Server(other, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name = hello.ServerName
			return nil, refused
		}}).Handshake()
	}()
	secure, err := Handshake(t.Context(), mine, config, addr)
	if secure == nil || err == nil {
		t.Errorf("%q: %v", addr, err)
	}
	_ = mine.Close()
	<-ended
	return name, err
}

// TestHandshakeServerName: the host of the address, without the zone, unless config says.
func TestHandshakeServerName(t *testing.T) {
	for _, tc := range []struct{ configured, addr, want string }{
		{"", "host.test:443", "host.test"},
		{"", "host.test", "host.test"},
		{"", "[fe80::1%eth0]:443", ""}, // the extension has no addresses
		{"other.test", "host.test:443", "other.test"},
		{"other.test", "a:b:c", "other.test"},
	} {
		config := &tls.Config{ServerName: tc.configured}
		if got, _ := serverNames(t, config, tc.addr); got != tc.want || config.ServerName != tc.configured {
			t.Errorf("%q: %q, want %q; the configuration has %q", tc.addr, got, tc.want, config.ServerName)
		}
		if err := CheckServerName(config, tc.addr); err != nil {
			t.Errorf("%q: %v", tc.addr, err)
		}
	}
	var malformed *net.AddrError
	if secure, err := Handshake(t.Context(), &fakeConn{}, &tls.Config{}, "a:b:c"); secure == nil || !errors.As(err, &malformed) {
		t.Errorf("a malformed address: %v", err)
	}
	for _, config := range []*tls.Config{nil, {}} {
		if err := CheckServerName(config, "a:b:c"); !errors.As(err, &malformed) {
			t.Errorf("a malformed address is dialed: %v", err)
		}
	}
}

// TestMakeSecure: a trace is told of a handshake that MakeSecure makes, and not of one that the dialer has
// begun. A connection is closed if it does not become secure.
func TestMakeSecure(t *testing.T) {
	certificate, err := selfsigned.New("h.test")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	trace := &Trace{
		TLSStart: func() { told = append(told, "start") },
		TLSDone: func(state tls.ConnectionState, err error) {
			told = append(told, fmt.Sprint(state.HandshakeComplete, " ", err != nil))
		},
	}
	config := &tls.Config{InsecureSkipVerify: true}
	for _, tc := range []struct {
		isOwn, hasTrace bool
		want            []string
	}{{false, false, nil}, {false, true, []string{"start", "true false"}}, {true, true, nil}} {
		mine, other := net.Pipe()
		ended := make(chan bool)
		go func() {
			defer close(ended)
			_ = tls.Server(other, &tls.Config{Certificates: []tls.Certificate{certificate}, SessionTicketsDisabled: true}).Handshake()
		}()
		var conn net.Conn = mine
		if tc.isOwn {
			conn = tls.Client(mine, config)
		}
		told = nil
		hooks := trace
		if !tc.hasTrace {
			hooks = &Trace{}
		}
		secure, err := MakeSecure(t.Context(), conn, config, "h.test:443", hooks)
		if err != nil || !secure.ConnectionState().HandshakeComplete || tc.isOwn && secure != conn || !slices.Equal(told, tc.want) {
			t.Errorf("%+v: %v, told %q", tc, err, told)
		}
		<-ended
		_ = mine.Close()
	}
	told = nil
	failed := &fakeConn{}
	if secure, err := MakeSecure(t.Context(), failed, &tls.Config{}, "a:b:c", trace); secure != nil || err == nil || !failed.isClosed.Load() || !slices.Equal(told, []string{"start", "false true"}) {
		t.Errorf("a malformed address: %v, told %q", err, told)
	}
	failed = &fakeConn{}
	func() {
		defer func() { _ = recover() }()
		_, _ = MakeSecure(t.Context(), failed, config, "h.test:443", &Trace{TLSStart: func() { panic("hook") }})
		t.Error("the panic of a hook is lost")
	}()
	if !failed.isClosed.Load() {
		t.Error("a hook panics, and the connection stays open")
	}
}

// TestHandshakeTakesHalfAMinute at most, with a server that says nothing.
func TestHandshakeTakesHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, other := net.Pipe()
		defer mine.Close()
		defer other.Close()
		go func() { _, _ = io.Copy(io.Discard, other) }()
		began := time.Now()
		err := Complete(t.Context(), tls.Client(mine, &tls.Config{ServerName: "h"}))
		if took := time.Since(began); took != 30*time.Second || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v after %v", err, took)
		}
	})
}

func TestOfferHTTP2(t *testing.T) {
	for _, tc := range []struct{ own, http1, both []string }{
		{nil, nil, []string{"h2", "http/1.1"}},
		{[]string{"http/1.1"}, []string{"http/1.1"}, []string{"http/1.1"}},
		{[]string{"h2"}, []string{}, []string{"h2"}},
		{[]string{"x", "h2", "http/1.1"}, []string{"x", "http/1.1"}, []string{"x", "h2", "http/1.1"}},
	} {
		config := &tls.Config{NextProtos: slices.Clone(tc.own)}
		http1, both := OfferHTTP2(config)
		if !slices.Equal(http1.NextProtos, tc.http1) || !slices.Equal(both.NextProtos, tc.both) || !slices.Equal(config.NextProtos, tc.own) {
			t.Errorf("%q: %q and %q; the program's are %q", tc.own, http1.NextProtos, both.NextProtos, config.NextProtos)
		}
	}
}
