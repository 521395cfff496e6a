package sluice_test

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
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
	tcp, _ := overTCP().listen(t)
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
		s := &sluice.Server{Engine: test.engine}
		got := s.EngineInfo(test.ln)
		switch {
		case hasEpoll() || test.engine == sluice.EnginePerConn:
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
	r := serve(t, inMemory(), &sluice.Server{Engine: sluice.EngineEpoll, Handler: answering("x")})
	if a := r.dial().get("/"); a.body != "x" {
		t.Errorf("answered %q", a.body)
	}
	if log := r.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "engine perconn (epoll is set, but ") {
		t.Errorf("logged %q", log)
	}
	for _, n := range append(overTCPByEach(), inMemory()) {
		r := serve(t, n, &sluice.Server{Handler: answering("x")})
		r.dial().get("/")
		if log := r.log.String(); log != "" {
			t.Errorf("%s: logged %q", n.name, log)
		}
	}
}

// TestEngineStats counts the connections of all engines that serve.
func TestEngineStats(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, n network) {
		inHandler, leave := make(chan sluice.EngineStats), make(chan struct{})
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			inHandler <- ctx.EngineStats()
			<-leave
		}}
		if stats := s.EngineStats(); stats.Engine != "" || stats.Connections != 0 {
			t.Errorf("before serving: %+v", stats)
		}
		r := serve(t, n, s)
		idle, busy := r.dial(), r.dial()
		idle.send(get("/"))
		receive(t, inHandler)
		leave <- struct{}{}
		idle.answer("GET")
		busy.send(get("/"))
		stats := receive(t, inHandler)
		if want := s.EngineInfo(nil).Engine.String(); stats.Engine != want {
			t.Errorf("engine %q, want %q", stats.Engine, want)
		}
		eventually(t, "one of two connections is active", func() bool {
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
		busy.answer("GET")
		r.stop()
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
	r := serve(t, overTCP(), &sluice.Server{Handler: func(*sluice.RequestCtx) { inHandler <- struct{}{}; <-leave }})
	p := r.dial()
	p.send(get("/"))
	receive(t, inHandler)
	stopped := shutdown(r.server)
	r.refusesConnections()
	r.server.EngineInfo(r.ln)
	r.server.EngineStats()
	close(leave)
	if a := p.answer("GET"); !a.Close {
		t.Error("the answer does not say that it is the last one")
	}
	if err := receive(t, stopped); err != nil {
		t.Error(err)
	}
}
