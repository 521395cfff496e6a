package prefork

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/pprofhandler"
)

// profiles are those of a test's workers, and their process ids.
func profiles(ctx *sluice.RequestCtx) {
	if string(ctx.Path()) == "/debug/pprof/pid" {
		fmt.Fprint(ctx, os.Getpid(), string(ctx.URI().QueryString()))
		return
	}
	pprofhandler.PprofHandler(ctx)
}

// holdUntil uses 16 MiB until a file exists.
func holdUntil(file string) {
	held := make([]byte, 16<<20)
	waitFor(file)
	runtime.KeepAlive(held)
}

// unpacked returns a profile's protocol buffer, which contains the names of functions.
func unpacked(profile string) ([]byte, error) {
	r, err := gzip.NewReader(strings.NewReader(profile))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// traces returns what Go's tool prints of a profile. The go command builds the tool if need
// be.
func traces(t *testing.T, name, profile string) ([]byte, error) {
	t.Helper()
	file, index := filepath.Join(t.TempDir(), "profile"), "0"
	if name != "goroutine" {
		index = "inuse_space"
	}
	if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	return exec.Command("go", "tool", "pprof", "-traces", "-sample_index="+index, "-symbolize=none", file).CombinedOutput()
}

// Profiles of a worker are that worker's, and Go's tool understands them.
func TestProfiles(t *testing.T) {
	t.Parallel()
	f := start(t, setup{Workers: 2, Admin: "127.0.0.1:0", Profiles: true}, true)
	admin, gate := f.admin(), filepath.Join(t.TempDir(), "gate")
	answered := make(chan error, 1)
	go func() {
		c, err := net.Dial("tcp", f.addr(0))
		if err != nil {
			answered <- err
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /hold?file=%s HTTP/1.1\r\nHost: x\r\n\r\n", gate) // no deadline: the go command may have to build pprof
		_, _, err = answer(bufio.NewReader(c))
		answered <- err
	}()
	holder := -1
	until(t, "a worker holds memory", func() bool {
		for _, w := range statusAt(t, "tcp", admin).Workers {
			if w.InFlight == 1 {
				holder = w.Slot
			}
		}
		if holder < 0 {
			return false
		}
		_, body := request(t, "tcp", admin, "GET", fmt.Sprintf("/workers/%d/pprof/heap?gc=1", holder), "")
		heap, err := unpacked(body)
		return err == nil && bytes.Contains(heap, []byte("prefork.hold"))
	})
	for slot, w := range statusAt(t, "tcp", admin).Workers {
		if _, body := request(t, "tcp", admin, "GET", fmt.Sprintf("/workers/%d/pprof/pid?a=b%%20c", slot), ""); body != fmt.Sprintf("%da=b%%20c", w.PID) {
			t.Errorf("slot %d is process %d: %q", slot, w.PID, body)
		}
		for _, name := range []string{"goroutine", "heap?gc=1"} {
			path := fmt.Sprintf("/workers/%d.1/pprof/%s", slot, name)
			status, body := request(t, "tcp", admin, "GET", path, "")
			out, err := unpacked(body)
			if !testing.Short() && err == nil {
				out, err = traces(t, name, body)
			}
			if holds := strings.Contains(string(out), "prefork.hold"); status != 200 || err != nil || holds != (slot == holder) {
				t.Errorf("%s: %d, %v: %s", path, status, err, out)
			}
		}
	}
	if _, page := request(t, "tcp", admin, "GET", "/workers/0/pprof/", ""); !strings.Contains(page, `<a href="./heap?debug=1">`) {
		t.Errorf("the list: %s", page)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// What cannot be answered has a status that says why. A few profiles are made at once, and
// those whose client has gone end.
func TestProfilesFail(t *testing.T) {
	t.Parallel()
	f := start(t, setup{Workers: 2, Admin: "127.0.0.1:0", Profiles: true, Hang: time.Hour, Threshold: 10}, true)
	admin := f.admin()
	ask := func(method, path string) (int, string) { return request(t, "tcp", admin, method, path, "") }
	for path, want := range map[string]int{
		"/workers/0.1/pprof/pid": 200, "/workers/0.2/pprof/pid": 404, "/workers/2/pprof/pid": 404, "/workers/x/pprof/pid": 404,
		"/workers/0.x/pprof/pid": 404, "/workers/": 404, "/workers/0/pprof/other": 404,
		"/workers/0/pprof/heap?seconds=301": 400, "/workers/0/pprof/heap?seconds=NaN": 400, "/workers/0/pprof/heap?seconds=x": 400,
		"/workers/0/pprof/profile?seconds=0.01": 200,
	} {
		if status, body := ask("GET", path); status != want {
			t.Errorf("%s: %d, %q, want %d", path, status, body, want)
		}
	}
	if status, _ := ask("POST", "/workers/0/pprof/pid"); status != 405 {
		t.Errorf("POST: %d", status)
	}
	gone, err := net.Dial("tcp", admin)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(gone, "GET /workers/0/pprof/profile?seconds=300 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	until(t, "a profile is being made", func() bool {
		_, stacks := ask("GET", "/workers/0/pprof/goroutine?debug=2")
		return strings.Contains(stacks, "pprofhandler.record")
	})
	if status, body := ask("GET", "/workers/0/pprof/profile?seconds=0.01"); status != 500 {
		t.Errorf("a second one: %d, %q", status, body)
	}
	gone.Close()
	until(t, "it has ended", func() bool { status, _ := ask("GET", "/workers/0/pprof/profile?seconds=0.01"); return status == 200 })

	stopped := statusAt(t, "tcp", admin).Workers[1].PID
	nettest.Freeze(t, stopped)
	type answer struct {
		status int
		body   string
	}
	answers := make(chan answer, profilesAtOnce)
	for range profilesAtOnce {
		go func() {
			status, body := 503, ""
			for status == 503 { // the question below may have been one too many
				status, body = ask("GET", "/workers/1/pprof/pid")
			}
			answers <- answer{status, body}
		}()
	}
	until(t, "too many profiles", func() bool { status, _ := ask("GET", "/workers/0/pprof/pid"); return status == 503 })
	for range profilesAtOnce {
		if a := <-answers; a.status != 504 || !strings.Contains(a.body, "worker 1.1 does not answer") {
			t.Errorf("a stopped worker: %+v", a)
		}
	}
	go func() {
		status, body := ask("GET", "/workers/1.1/pprof/profile")
		answers <- answer{status, body}
	}()
	until(t, "the worker has more to read", func() bool { status, _ := ask("GET", "/workers/0/pprof/pid"); return status == 200 })
	if err := syscall.Kill(stopped, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.status != 404 {
		t.Errorf("a killed worker: %+v", a)
	}
}
