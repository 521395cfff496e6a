package client_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// tracing returns a ClientTrace that tells its calls under a name.
func tracing(name string, told *[]string) *sluice.ClientTrace {
	tell := func(what string) { *told = append(*told, name+" "+what) }
	return &sluice.ClientTrace{
		GetConn:      func(string) { tell("get") },
		GotConn:      func(info sluice.GotConnInfo) { tell(fmt.Sprint("got ", info.IsReused)) },
		WroteRequest: func(err error) { tell(fmt.Sprint("wrote ", err)) },
		FirstByte:    func() { tell("first byte") },
	}
}

// TestTraceOfContext: a call whose context has a trace tells that one, in place of
// the client's, and the next call with the same request tells the client's again.
func TestTraceOfContext(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	var told []string
	c := p.Host()
	c.Trace = tracing("client", &told)
	ctx := sluice.WithClientTrace(t.Context(), tracing("context", &told))
	req, resp := harness.NewCall("GET", p.URL("/"))
	isReused := false
	for _, call := range []struct {
		name, want string
		do         func() error
	}{
		{"Do", "client", func() error { return c.Do(req, resp) }},
		{"DoContext", "context", func() error { return c.DoContext(ctx, req, resp) }},
		{"DoContext without a trace", "client", func() error { return c.DoContext(t.Context(), req, resp) }},
		{"GetContext", "context", func() error { return errorOf(c.GetContext(ctx, nil, p.URL("/"))) }},
		{"GetContext of Background", "client", func() error { return errorOf(c.GetContext(context.Background(), nil, p.URL("/"))) }},
		{"GetContext of a trace that never ends", "context", func() error {
			return errorOf(c.GetContext(sluice.WithClientTrace(context.Background(), tracing("context", &told)), nil, p.URL("/")))
		}},
		{"Do again", "client", func() error { return c.Do(req, resp) }},
	} {
		told = nil
		if err := call.do(); err != nil {
			t.Fatalf("%s: %v", call.name, err)
		}
		want := []string{call.want + " get", call.want + fmt.Sprint(" got ", isReused), call.want + " wrote <nil>", call.want + " first byte"}
		if !slices.Equal(told, want) {
			t.Errorf("%s told %q, want %q", call.name, told, want)
		}
		isReused = true
	}
}

// errorOf returns the error of a call that returns status and body.
func errorOf(_ int, _ []byte, err error) error { return err }

// GetConn and GotConn are declared and never called.
func TestTraceOrder(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	var told []string
	var mu sync.Mutex
	tell := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, what)
	}
	c := p.Host()
	c.Trace = &sluice.ClientTrace{
		GetConn:      func(addr string) { tell("get " + addr) },
		GotConn:      func(i sluice.GotConnInfo) { tell(fmt.Sprint("got ", i.IsReused, i.Conn != nil)) },
		DialStart:    func(network, addr string) { tell("dial " + addr) },
		DialDone:     func(network, addr string, err error) { tell(fmt.Sprint("dialed ", err)) },
		WroteRequest: func(err error) { tell(fmt.Sprint("wrote ", err)) },
		FirstByte:    func() { tell("first") },
	}
	for range 2 {
		if _, _, err := c.Get(nil, p.URL("/")); err != nil {
			t.Fatal(err)
		}
	}
	a := p.Addr()
	want := []string{
		"get " + a, "dial " + a, "dialed <nil>", "got false true", "wrote <nil>", "first",
		"get " + a, "got true true", "wrote <nil>", "first",
	}
	if got := strings.Join(told, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("told\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
