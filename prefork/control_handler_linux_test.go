package prefork

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// states returns the states of a stream of progress, without repetitions, and its last
// line.
func states(t *testing.T, stream string) (all []string, last Progress) {
	t.Helper()
	for line := range strings.Lines(stream) {
		last = Progress{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if len(all) == 0 || all[len(all)-1] != last.State {
			all = append(all, last.State)
		}
	}
	return all, last
}

// Each order is carried out and answered, in each of the three ways.
func TestControlHandler(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	f := start(t, setup{Workers: 2, Admin: "127.0.0.1:0", Broken: broken, Linger: time.Millisecond, Soak: 500 * time.Millisecond}, true)
	restarts := 0
	for _, c := range []struct {
		broken, request string
		fields          string
		status          int
		body            string // its beginning
	}{
		{"", "POST /control/restart", "", 200, "restarted\n"},
		{"", "POST /control/reload", "", 200, "restarted\n"},
		{"", "POST /control/upgrade", "", 200, "upgraded\n"},
		{"reload", "POST /control/upgrade", "", 500, "broken: reload\n"},
		{"reload", "POST /control/upgrade?wait=progress", "", 200, `{"state":"failed","version":4,"replaced":2,"wanted":2,"error":"broken: reload"}`},
		{"boot", "POST /control/restart", "", 500, "sluice: rolling restart failed in slot "},
		{"", "POST /control/scale?workers=3", "", 200, "scaled\n"},
		{"", "POST /control/scale?workers=1&wait=progress", "", 200, `{"state":"`},
		{"", "POST /control/scale?workers=0", "", 500, "sluice: the number of workers must be between 1 and "},
		{"", "POST /control/scale?workers=100000&wait=no", "", 500, "sluice: the number of workers must be between 1 and "},
		{"", "POST /control/scale", "", 500, "sluice: the number of workers must be between 1 and "},
		{"", "POST /control/scale?workers=2&wait=no", "", 202, ""},
		{"", "POST /control/stop", "", 404, "there are /status"},
		{"", "GET /control/restart", "", 405, ""},
		{"", "POST /control/restart", "Origin: http://elsewhere\r\n", 403, ""},
		{"", "GET /control/status?format=json", "", 200, `{"wanted":`},
	} {
		if err := os.WriteFile(broken, []byte(c.broken), 0o600); err != nil {
			t.Fatal(err)
		}
		method, path, _ := strings.Cut(c.request, " ")
		status, body := request(t, "tcp", f.admin(), method, path, c.fields)
		if status != c.status || !strings.HasPrefix(body, c.body) {
			t.Errorf("%s, %q: %d, %q; want %d, %q", c.request, c.broken, status, body, c.status, c.body)
		}
		if strings.HasSuffix(c.body, "ed\n") && c.body != "scaled\n" {
			restarts++
		}
		if s := statusAt(t, "tcp", f.admin()); s.Restarts != restarts {
			t.Errorf("%s: %d restarts, want %d", c.request, s.Restarts, restarts)
		}
	}
	until(t, "there are two workers again", func() bool { s := statusAt(t, "tcp", f.admin()); return s.Ready && s.Wanted == 2 })

	_, stream := request(t, "tcp", f.admin(), "POST", "/control/restart?wait=progress", "")
	all, last := states(t, stream)
	if !slices.Contains(all, "soaking") || last.State != "done" || last.Replaced != 2 || last.Version != 6 || last.Error != "" {
		t.Errorf("%q, %+v", all, last)
	}
	if text := last.String(); text != "done: 2 of 2 slots have version 6" {
		t.Error(text)
	}
	if err := os.WriteFile(broken, []byte("boot"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stream = request(t, "tcp", f.admin(), "POST", "/control/restart?wait=progress", "")
	all, last = states(t, stream)
	if last.State != "failed" || !strings.HasSuffix(last.Error, "cannot start: config: broken: boot") || last.String() != last.Error || last.Version != 6 {
		t.Errorf("%q, %+v", all, last)
	}
}

// A restart that several wait for ends with the same answer for all of them. Those that
// were asked for meanwhile are one restart, after it (I27, I32).
func TestSeveralWait(t *testing.T) {
	f := start(t, setup{Workers: 2, Admin: "127.0.0.1:0", Linger: time.Millisecond, Soak: 300 * time.Millisecond}, true)
	post := func(path string) <-chan string {
		answer := make(chan string, 1)
		go func() {
			_, body := request(t, "tcp", f.admin(), "POST", path, "")
			answer <- body
		}()
		return answer
	}
	isRolling := func() bool { s := statusAt(t, "tcp", f.admin()); return s.Rolling || s.Soaking }
	request(t, "tcp", f.admin(), "POST", "/control/restart?wait=no", "")
	until(t, "it begins", isRolling)
	var others []<-chan string
	for range 3 {
		others = append(others, post("/control/upgrade"))
	}
	for _, answer := range others {
		if got := <-answer; got != "upgraded\n" {
			t.Errorf("%q", got)
		}
	}
	if s := statusAt(t, "tcp", f.admin()); s.Restarts < 2 || s.Restarts > 3 || s.GoodVersion != s.Restarts+1 {
		t.Errorf("%d restarts, version %d", s.Restarts, s.GoodVersion)
	}
}

// Who waits for a number of workers hears that another order wants another number, and that the
// workers are paused, and does not wait for ever.
func TestScaleIsSuperseded(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, setup{Workers: 1, Admin: "127.0.0.1:0", FirstGate: gate, Linger: time.Millisecond}, true)
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	answer := make(chan string, 1)
	go func() {
		status, body := request(t, "tcp", f.admin(), "POST", "/control/scale?workers=3", "")
		answer <- fmt.Sprint(status, " ", body)
	}()
	until(t, "three are wanted", func() bool { return statusAt(t, "tcp", f.admin()).Wanted == 3 })
	request(t, "tcp", f.admin(), "POST", "/control/scale?workers=2&wait=no", "")
	if got := <-answer; got != "500 sluice: another order wants 2 workers, and not 3\n" {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.signal(syscall.SIGWINCH)
	until(t, "they are paused", func() bool { return statusAt(t, "tcp", f.admin()).Paused })
	status, body := request(t, "tcp", f.admin(), "POST", "/control/scale?workers=1", "")
	if status != 500 || body != ErrStopping.Error()+"\n" {
		t.Errorf("%d, %q", status, body)
	}
}

// What a line of progress says.
func TestProgress(t *testing.T) {
	slots := []SlotStatus{{Version: 1}, {Version: 2}, {Version: 2, Retired: true}}
	for want, s := range map[string]Status{
		"waiting: 1 of 2 slots have version 2":      {Version: 2, GoodVersion: 2},
		"replacing: 1 of 2 slots have version 2":    {Version: 2, GoodVersion: 1, Rolling: true},
		"soaking: 1 of 2 slots have version 2":      {Version: 2, GoodVersion: 1, Soaking: true},
		"rolling back: 1 of 2 slots have version 1": {Version: 1, GoodVersion: 1, Rolling: true},
	} {
		s.Wanted, s.Slots = 2, slots
		if got := progressOf(s).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// The next restart may have begun when the end of one is told.
	next := Status{Version: 3, GoodVersion: 2, Rolling: true, Wanted: 2, Slots: slots}
	if got, want := endOf(next, nil).String(), "done: 2 of 2 slots have version 2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Without a fleet every order fails.
func TestOrdersWithoutFleet(t *testing.T) {
	p := &Prefork{}
	if err := p.UpgradeWorkers(context.Background()); !errors.Is(err, ErrNotMaster) {
		t.Error(err)
	}
	if err := p.scaleTo(context.Background(), 1); !errors.Is(err, ErrNotMaster) {
		t.Error(err)
	}
	var b bytes.Buffer
	p.tell(bufio.NewWriter(&b), p.Restart)
	if _, last := states(t, b.String()); last.State != "failed" || last.Error != ErrNotMaster.Error() {
		t.Errorf("%s", b.String())
	}
}
