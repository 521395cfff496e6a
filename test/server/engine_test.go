package server_test

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestEngineNames(t *testing.T) {
	for engine, name := range map[sluice.Engine]string{
		sluice.EngineAuto: "auto", sluice.EnginePerConn: "perconn", sluice.EngineEpoll: "epoll",
	} {
		if engine.String() != name {
			t.Errorf("%d is %q, want %q", engine, engine, name)
		}
		if got, err := sluice.ParseEngine(name); got != engine || err != nil {
			t.Errorf("%q is %v, %v", name, got, err)
		}
		text, err := json.Marshal(engine)
		if err != nil || string(text) != `"`+name+`"` {
			t.Errorf("as JSON: %s, %v", text, err)
		}
		read := sluice.Engine(99)
		if err := json.Unmarshal(text, &read); err != nil || read != engine {
			t.Errorf("from JSON: %v, %v", read, err)
		}
	}
	for _, name := range []string{"", "Epoll", "kqueue", "epoll "} {
		var engine sluice.Engine
		_, err := sluice.ParseEngine(name)
		if err == nil || !strings.Contains(err.Error(), "auto, perconn or epoll") || engine.UnmarshalText([]byte(name)) == nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	strange := sluice.Engine(9)
	if _, err := strange.MarshalText(); err == nil || strange.String() != "Engine(9)" {
		t.Errorf("%v, %v", strange, err)
	}
}

// TestEngineInfo: what is chosen for which listener, and why.
func TestEngineInfo(t *testing.T) {
	tcp, _ := harness.OverTCP().Listen(t)
	defer tcp.Close()
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	memory := fasthttputil.NewInmemoryListener()
	byListener := tls.NewListener(tcp, &tls.Config{})
	tests := []struct {
		engine sluice.Engine
		ln     net.Listener
		want   string // where there is epoll
	}{
		{sluice.EngineAuto, nil, "epoll (auto: linux)"},
		{sluice.EngineAuto, tcp, "epoll (auto: linux, TCP listener)"},
		{sluice.EngineAuto, unix, "epoll (auto: linux, unix listener)"},
		{sluice.EngineAuto, memory, "perconn (auto: *fasthttputil.InmemoryListener may yield more than bare sockets)"},
		{sluice.EngineAuto, byListener, "perconn (auto: *tls.listener may yield more than bare sockets)"},
		{sluice.EnginePerConn, tcp, "perconn (as set)"},
		{sluice.EnginePerConn, memory, "perconn (as set)"},
		{sluice.EngineEpoll, tcp, "epoll (as set)"},
		{sluice.EngineEpoll, memory, "perconn (epoll is set, but *fasthttputil.InmemoryListener may yield more than bare sockets)"},
	}
	for _, test := range tests {
		s := &sluice.Server{Engine: test.engine, IOUring: sluice.IOUringOff}
		got := s.EngineInfo(test.ln)
		switch {
		case harness.HasEpoll() || test.engine == sluice.EnginePerConn:
			if got.String() != test.want {
				t.Errorf("%v, %T: %v\nwant %s", test.engine, test.ln, got, test.want)
			}
		case got.Engine != sluice.EnginePerConn || got.Reason == "":
			t.Errorf("%v, %T: %v", test.engine, test.ln, got)
		}
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}

// TestEngineFallback: where the engine that was set cannot serve, another one
// does, and the log says so.
func TestEngineFallback(t *testing.T) {
	r := harness.Serve(t, harness.InMemory(), &sluice.Server{Engine: sluice.EngineEpoll, Handler: answering("x")})
	if a := r.Dial().Get("/"); a.Body != "x" {
		t.Errorf("answered %q", a.Body)
	}
	if log := r.Log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "engine perconn (epoll is set, but ") {
		t.Errorf("logged %q", log)
	}
	for _, n := range append(harness.OverTCPByEach(), harness.InMemory()) {
		r := harness.Serve(t, n, &sluice.Server{Handler: answering("x")})
		r.Dial().Get("/")
		if log := r.Log.String(); log != "" {
			t.Errorf("%s: logged %q", n.Name, log)
		}
	}
}

// TestEngineStats counts the connections of all engines that serve.
func TestEngineStats(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		inHandler, leave := make(chan sluice.EngineStats), make(chan struct{})
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			inHandler <- ctx.EngineStats()
			<-leave
		}}
		if stats := s.EngineStats(); stats.Engine != "" || stats.Connections != 0 {
			t.Errorf("before serving: %+v", stats)
		}
		r := harness.Serve(t, n, s)
		idle, busy := r.Dial(), r.Dial()
		idle.Send(harness.Get("/"))
		harness.Receive(t, inHandler)
		leave <- struct{}{}
		idle.Answer("GET")
		busy.Send(harness.Get("/"))
		stats := harness.Receive(t, inHandler)
		if want := s.EngineInfo(nil).Engine.String(); stats.Engine != want {
			t.Errorf("engine %q, want %q", stats.Engine, want)
		}
		harness.Eventually(t, "one of two connections is active", func() bool {
			stats = s.EngineStats()
			return stats.Connections == 2 && stats.Active == 1
		})
		var sum sluice.LoopStats
		for _, l := range stats.Loops {
			sum.Connections += l.Connections
			sum.Active += l.Active
			sum.Workers += l.Workers
		}
		if sum.Connections != 2 || sum.Active != 1 || sum.Workers == 0 {
			t.Errorf("the loops have %+v in %+v", sum, stats)
		}
		leave <- struct{}{}
		busy.Answer("GET")
		r.Stop()
		if stats := s.EngineStats(); stats.Engine != "" || len(stats.Loops) != 0 {
			t.Errorf("after Shutdown: %+v", stats)
		}
	})
	if stats := (&sluice.RequestCtx{}).EngineStats(); stats.Engine != "" {
		t.Errorf("outside a server: %+v", stats)
	}
}

// TestEngineInfoDisturbsNothing: to ask is not to serve again.
func TestEngineInfoDisturbsNothing(t *testing.T) {
	inHandler, leave := make(chan struct{}), make(chan struct{})
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: func(*sluice.RequestCtx) { inHandler <- struct{}{}; <-leave }})
	p := r.Dial()
	p.Send(harness.Get("/"))
	harness.Receive(t, inHandler)
	stopped := harness.Shutdown(r.Server)
	r.RefusesConnections()
	r.Server.EngineInfo(r.Ln)
	r.Server.EngineStats()
	close(leave)
	if a := p.Answer("GET"); !a.Close {
		t.Error("the answer does not say that it is the last one")
	}
	if err := harness.Receive(t, stopped); err != nil {
		t.Error(err)
	}
}
