package prefork

import (
	"bufio"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// askAdmin has the default handler of an admin answer.
func askAdmin(s Source, path string) *sluice.Response {
	var ctx sluice.RequestCtx
	var req sluice.Request
	req.SetRequestURI(path)
	ctx.Init(&req, nil, nil)
	defaultAdmin(s)(&ctx)
	_ = ctx.Response.Body() // reads the stream
	return &ctx.Response
}

// One process has the same paths as workers, and nothing is left of a request.
func TestProfilesOfOneProcess(t *testing.T) {
	s := NewSingle(&sluice.Server{Logger: quiet()})
	if r := askAdmin(s, "/workers/0/pprof/x"); r.StatusCode() != 404 || string(r.Body()) != "profiles are off: set Profiles of Prefork or Single, or start sluice serve with --profiles\n" {
		t.Errorf("off: %v", r)
	}
	s.Profiles = func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/debug/pprof/panic" {
			panic("on purpose")
		}
		ctx.SetContentType("text/x")
		ctx.Response.Header.Set("Content-Disposition", "attachment")
		ctx.SetBodyString(string(ctx.RequestURI()))
	}
	before := runtime.NumGoroutine()
	if r := askAdmin(s, "/workers/0/pprof/a%20b?c=d"); r.StatusCode() != 200 || string(r.Body()) != "/debug/pprof/a%20b?c=d" || string(r.Header.ContentType()) != "text/x" ||
		string(r.Header.Peek("Content-Disposition")) != "attachment" || string(r.Header.Peek("Cache-Control")) != "no-store" {
		t.Errorf("%v", r)
	}
	if r := askAdmin(s, "/workers/0.1/pprof/panic"); r.StatusCode() != 500 {
		t.Errorf("a panic: %v", r)
	}
	if r := askAdmin(s, "/workers/1/pprof/x"); r.StatusCode() != 404 {
		t.Errorf("slot 1: %v", r)
	}
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i == 5000 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(time.Millisecond)
	}
}

// Workers and processes that do not run a fleet have no profiles of others.
func TestProfilesWithoutMaster(t *testing.T) {
	p := &Prefork{Profiles: func(*sluice.RequestCtx) {}}
	if r := askAdmin(p, "/workers/0/pprof/x"); r.StatusCode() != 404 {
		t.Errorf("%v", r)
	}
	if _, err := p.dial(0, 1); err != ErrNotMaster {
		t.Error(err)
	}
}

// A worker closes what it cannot use.
func TestServeStream(t *testing.T) {
	log := &lines{}
	p := &Prefork{Logger: log}
	closed, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	p.serveStream(closed) // no socket
	if p.logger().Flush(); len(log.all) != 1 || !strings.Contains(log.all[0], "a request for a profile") {
		t.Errorf("log %q", log.all)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ours, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	file, err := theirs.(*net.TCPConn).File()
	if err != nil {
		t.Skip(err)
	}
	theirs.Close()
	p.serveStream(file)
	if _, err := bufio.NewReader(ours).ReadByte(); err != io.EOF {
		t.Errorf("without Profiles: %v", err)
	}
}
