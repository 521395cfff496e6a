package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
)

// ctl runs "sluice ctl" and returns what it prints and its exit status.
func ctl(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := limited(t, binary, append([]string{"ctl"}, args...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), problems.String(), cmd.ProcessState.ExitCode()
}

// What an admin address answers becomes lines and an exit status.
// long: a table
func TestCtlAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	path := filepath.Join(t.TempDir(), "admin")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var status int
	var contentType, body, asked string
	gate := make(chan struct{})
	server := &sluice.Server{Engine: sluice.EnginePerConn, Handler: func(ctx *sluice.RequestCtx) {
		if now := string(ctx.Method()) + " " + string(ctx.RequestURI()); now != "GET /status?format=json" || asked == "" {
			asked = now // and not how ctl looks whether the order goes on
		}
		if body == "hang" {
			<-gate
		}
		ctx.SetStatusCode(status)
		ctx.SetContentType(contentType)
		ctx.SetBodyString(body)
	}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	defer func() { close(gate); server.Shutdown(); <-served }()
	const lines = "application/x-ndjson"
	replacing := `{"state":"replacing","version":2,"replaced":1,"wanted":2}` + "\n"
	done := `{"state":"done","version":2,"replaced":2,"wanted":2}` + "\n"
	failed := `{"state":"failed","version":1,"replaced":2,"wanted":2,"error":"sluice: rolling restart failed in slot 0: exit status 7"}` + "\n"
	for _, c := range []struct {
		args           string
		status         int
		contentType    string
		body           string
		asked          string
		stdout, stderr string
		exit           int
	}{
		{"restart", 200, lines, replacing + replacing + done, "POST /restart?wait=progress", "replacing: 1 of 2 slots have version 2\ndone: 2 of 2 slots have version 2\n", "", 0},
		{"reload --json", 200, lines, replacing + done, "POST /restart?wait=progress", replacing + done, "", 0},
		{"upgrade", 200, lines, replacing + failed, "POST /upgrade?wait=progress", "replacing: 1 of 2 slots have version 2\n", "sluice ctl upgrade: rolling restart failed in slot 0: exit status 7\n", 1},
		{"upgrade --json", 200, lines, failed, "POST /upgrade?wait=progress", failed, "sluice ctl upgrade: rolling restart failed in slot 0: exit status 7\n", 1},
		{"upgrade --wait=false", 202, "", "", "POST /upgrade?wait=no", "", "", 0},
		{"scale 3", 200, lines, done, "POST /scale?workers=3&wait=progress", "done: 2 of 2 slots have version 2\n", "", 0},
		{"scale 3 --wait=false", 500, "", "sluice: the number of workers must be between 1 and 2\n", "POST /scale?workers=3&wait=no", "", "sluice ctl scale: the number of workers must be between 1 and 2\n", 1},
		{"status", 200, "text/plain", "workers: 2\n", "GET /status", "workers: 2\n", "", 0},
		{"status --json", 200, "application/json", "{}\n", "GET /status?format=json", "{}\n", "", 0},
		{"restart", 404, "", "", "POST /restart?wait=progress", "", "sluice ctl restart: unix:" + path + " takes no orders (status 404): it must be the --admin of a server with --prefork, or have prefork.ControlHandler\n", 3},
		{"restart", 200, "text/plain", "restarted\n", "POST /restart?wait=progress", "", "sluice ctl restart: unix:" + path + " takes no orders (status 200): it must be the --admin of a server with --prefork, or have prefork.ControlHandler\n", 3},
		{"restart", 200, lines, replacing, "POST /restart?wait=progress", "replacing: 1 of 2 slots have version 2\n", "sluice ctl restart: the server ended before the order was carried out\n", 1},
		{"restart", 200, lines, "x\n", "POST /restart?wait=progress", "", "sluice ctl restart: not a line of progress: invalid character 'x' looking for beginning of value\n", 3},
		{"restart --timeout 0.2", 200, lines, "hang", "POST /restart?wait=progress", "", "sluice ctl restart: not over yet; it goes on\n", 4},
	} {
		status, contentType, body, asked = c.status, c.contentType, c.body, ""
		stdout, stderr, exit := ctl(t, append(strings.Fields(c.args), "--admin", "unix:"+path)...)
		if stdout != c.stdout || stderr != c.stderr || exit != c.exit || asked != c.asked {
			t.Errorf("%s, %q: asked %q, printed %q and %q, status %d; want %+v", c.args, c.body, asked, stdout, stderr, exit, c)
		}
	}
	body = "hang"
	dir := t.TempDir()
	file, stale := filepath.Join(dir, "file"), filepath.Join(dir, "stale")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	gone, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	gone.SetUnlinkOnClose(false)
	gone.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := tcp.Addr().String()
	tcp.Close()
	for _, c := range []struct {
		args, stderr string
		exit         int
	}{
		{"restart", "--admin is needed", 2},
		{"restart --admin 9090", "--admin 9090 is a port alone", 2},
		{"scale --admin unix:x", "N", 2},
		{"scale many --admin unix:x", "scale takes a number of workers, at least 1, not \"many\"", 2},
		{"scale 0 --admin unix:x", "scale takes a number of workers, at least 1, not \"0\"", 2},
		{"restrat --admin unix:x", "unknown command \"restrat\" for \"sluice ctl\"", 2},
		{"restart now --admin unix:x", "there are no arguments, only flags: [\"now\"]", 2},
		{"status --admin unix:", "--admin unix: needs the path of a socket", 2},
		{"restart --admin unix:/no/such/socket", "no answer from unix:/no/such/socket: there is no such socket; is the server running, with this --admin?\n", 3},
		{"status --admin unix:" + stale, "no answer from unix:" + stale + ": nothing listens on the socket; its server was killed, and has not been started again\n", 3},
		{"status --admin unix:" + file, "no answer from unix:" + file + ": it is not a socket; what was the server's --admin?\n", 3},
		{"status --admin " + closed, "no answer from " + closed + ": nothing listens there; is the server running, with this --admin?\n", 3},
		{"status --timeout 0.2 --admin unix:" + path, "sluice ctl status: no answer from unix:" + path + " yet\n", 3},
	} {
		if _, stderr, exit := ctl(t, strings.Fields(c.args)...); exit != c.exit || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: %q, status %d", c.args, stderr, exit)
		}
	}
}

// A server that hangs is no reason to wait for ever.
func TestCtlIsImpatient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	said := ""
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, said)
		}
	}()
	for _, c := range []struct{ verb, said, want string }{
		{"status", "", "no answer from unix:" + path + ": it has said nothing for 50ms"},
		{"restart", "", "no answer from unix:" + path + ": it has said nothing for 50ms"},
		{"restart", "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n", "no more answer from unix:" + path + ": it has said nothing for 50ms"},
	} {
		said = c.said
		o := &ctlOptions{admin: "unix:" + path, waits: true, patience: 50 * time.Millisecond}
		if a := o.ask(t.Context(), c.verb, "/"+c.verb); a.status != ctlNoAnswer || a.err == nil || !strings.Contains(a.err.Error(), c.want) {
			t.Errorf("%s after %q: %d, %v, want %q", c.verb, c.said, a.status, a.err, c.want)
		}
	}
}

// If the manager dies, ctl looks how the order ends: not before the new version has proven itself.
func TestCtlAwaits(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	path := filepath.Join(t.TempDir(), "admin")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	statuses := make(chan string, 2)
	server := &sluice.Server{Engine: sluice.EnginePerConn, Handler: func(ctx *sluice.RequestCtx) {
		if ctx.IsPost() {
			ctx.SetContentType("application/x-ndjson")
			ctx.SetBodyString(`{"state":"soaking","version":2,"replaced":2,"wanted":2}` + "\n") // and no more
			return
		}
		select {
		case text := <-statuses:
			ctx.SetBodyString(text)
		default:
			ctx.Error("", sluice.StatusNotFound)
		}
	}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	defer func() { server.Shutdown(); <-served }()
	const soaking = `{"state":"soaking","version":2,"replaced":2,"wanted":2}` + "\n"
	for _, c := range []struct {
		status, stdout, stderr string
		exit                   int
	}{
		{`{"ready":true,"version":2,"wanted":2}`, soaking + `{"state":"done","version":2,"replaced":2,"wanted":2}` + "\n", "", 0},
		{
			`{"ready":true,"version":1,"wanted":2,"restart_error":"it failed"}`,
			soaking + `{"state":"failed","version":1,"replaced":2,"wanted":2,"error":"it failed"}` + "\n", "sluice ctl restart: it failed\n", 1,
		},
	} {
		statuses <- `{"ready":true,"version":2,"wanted":2,"soaking":true}`
		statuses <- c.status
		stdout, stderr, exit := ctl(t, "restart", "--json", "--admin", "unix:"+path)
		if stdout != c.stdout || stderr != c.stderr || exit != c.exit {
			t.Errorf("printed %q and %q, status %d; want %+v", stdout, stderr, exit, c)
		}
	}
}

// someProgram returns the path of a program that has no file yet, and what installs a copy of another
// program there.
func someProgram(t *testing.T) (path string, install func(from string)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	return path, func(from string) {
		t.Helper()
		// Another process writes it: a child that a parallel test starts meanwhile would keep it open
		// for writing for a moment, and it could not be executed.
		if out, err := exec.Command("cp", from, path+".new").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

// With --upgrade the master is replaced, too, under the same pid. An order survives the death of
// its manager.
func TestCtlUpgradesInPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes, and waits for twenty seconds")
	}
	t.Parallel()
	program, install := someProgram(t)
	install(binary)
	admin := "unix:" + filepath.Join(t.TempDir(), "admin")
	p := startPreforkedBinary(t, program, "--admin", admin, "--upgrade")
	manager := func() int {
		t.Helper()
		var s prefork.Status
		stdout, stderr, status := ctl(t, "status", "--json", "--admin", admin)
		if err := json.Unmarshal([]byte(stdout), &s); err != nil || status != 0 {
			t.Fatalf("%v, %s, status %d", err, stderr, status)
		}
		return s.Master.PID
	}
	install("/bin/false")
	stdout, stderr, status := ctl(t, "upgrade", "--admin", admin)
	if want := "sluice ctl upgrade: the new binary cannot manage the service: exit status 1\n"; status != 1 || stderr != want {
		t.Errorf("%q, %q, status %d", stdout, stderr, status)
	}
	install(binary)
	first := manager()
	killed := time.AfterFunc(3*time.Second, func() { syscall.Kill(first, syscall.SIGKILL) })
	defer killed.Stop()
	stdout, stderr, status = ctl(t, "upgrade", "--admin", admin)
	if status != 0 || !strings.HasSuffix(stdout, "done: 2 of 2 slots have version 2\n") {
		t.Errorf("%q, %q, status %d", stdout, stderr, status)
	}
	if body, err := p.get("/plaintext"); err != nil || body != "Hello, World!" {
		t.Errorf("%q, %v", body, err)
	}
	if now := manager(); now == first || now == p.Process.Pid {
		t.Errorf("manager %d, was %d, holder %d", now, first, p.Process.Pid)
	}
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(strings.TrimPrefix(admin, "unix:")); err == nil {
		t.Error("the admin socket was not removed")
	}
}

// A server is scaled, upgraded to a broken binary, which is rolled back, and to a good one.
func TestCtlOfServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes, and waits for ten seconds")
	}
	t.Parallel()
	program, install := someProgram(t)
	install(binary)
	p := startPreforkedBinary(t, program, "--admin", "127.0.0.1:0")
	admin := strings.TrimPrefix(p.admin(t).url, "http://")
	stdout, stderr, status := ctl(t, "scale", "3", "--admin", admin)
	if status != 0 || !strings.HasSuffix(stdout, "done: 3 of 3 slots have version 1\n") {
		t.Errorf("%q, %q, status %d", stdout, stderr, status)
	}
	broken, err := exec.LookPath("false")
	if err != nil {
		t.Skip(err)
	}
	install(broken)
	stdout, stderr, status = ctl(t, "upgrade", "--admin", admin)
	if want := regexp.MustCompile(`^sluice ctl upgrade: rolling restart failed in slot \d: exit status 1\n$`); status != 1 || !want.MatchString(stderr) {
		t.Errorf("%q, %q, status %d", stdout, stderr, status)
	}
	if body, err := p.get("/plaintext"); err != nil || body != "Hello, World!" {
		t.Errorf("%q, %v", body, err)
	}
	install(binary)
	stdout, stderr, status = ctl(t, "upgrade", "--admin", admin)
	if status != 0 || !strings.HasSuffix(stdout, "done: 3 of 3 slots have version 3\n") {
		t.Errorf("%q, %q, status %d", stdout, stderr, status)
	}
	stdout, stderr, status = ctl(t, "status", "--admin", admin)
	if status != 0 || !strings.Contains(stdout, "workers: 3 wanted, 3 ready") || !strings.Contains(stdout, "upgrade") {
		t.Errorf("%q, %q, status %d", stdout, stderr, status)
	}
}
