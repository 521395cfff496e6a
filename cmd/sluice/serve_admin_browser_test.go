//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/websocket"
)

// A tab is one of a browser that goes on running, driven by the DevTools protocol.
type tab struct {
	t          *testing.T
	conn       *websocket.Conn
	last       int
	complaints []string // of the page's scripts
}

// A devtoolsMessage is an answer or an event.
type devtoolsMessage struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
	} `json:"result"`
}

// open starts a browser with one tab.
func (b browser) open(t *testing.T) *tab {
	t.Helper()
	profile, err := os.MkdirTemp("", "sluice-browser")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(b.program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--no-proxy-server", "--remote-debugging-port=0", "--user-data-dir="+profile, "about:blank")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it is several processes: all of them end
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		os.RemoveAll(profile)
	})
	listening := regexp.MustCompile(`DevTools listening on ws://([^/]+)/`)
	host := ""
	lines := bufio.NewScanner(stderr)
	for host == "" && lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			host = m[1]
		}
	}
	go func() {
		for lines.Scan() { // nothing waits in the pipe
		}
	}()
	var targets []struct {
		Type string
		URL  string `json:"webSocketDebuggerUrl"`
	}
	eventually(t, "a tab", func() bool {
		resp, err := http.Get("http://" + host + "/json")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(&targets) == nil && len(targets) > 0 && targets[0].Type == "page"
	})
	conn, err := websocket.Dial(context.Background(), targets[0].URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	tb := &tab{t: t, conn: conn}
	for _, domain := range []string{"Log", "Runtime", "Page"} {
		tb.call(domain+".enable", nil)
	}
	return tb
}

// call calls a method, and collects what the page complains about meanwhile.
func (b *tab) call(method string, params map[string]any) devtoolsMessage {
	b.t.Helper()
	b.last++
	if err := b.conn.WriteJSON(b.t.Context(), map[string]any{"id": b.last, "method": method, "params": params}); err != nil {
		b.t.Fatal(err)
	}
	for {
		var m devtoolsMessage
		if err := b.conn.ReadJSON(b.t.Context(), &m); err != nil {
			b.t.Fatal(err)
		}
		switch {
		case m.ID == b.last:
			return m
		case m.Method == "Log.entryAdded", m.Method == "Runtime.consoleAPICalled", m.Method == "Runtime.exceptionThrown":
			b.complaints = append(b.complaints, string(m.Params))
		}
	}
}

// text returns what the page shows.
func (b *tab) text() string {
	b.t.Helper()
	text, _ := b.call("Runtime.evaluate", map[string]any{"expression": "document.body.innerText", "returnByValue": true}).Result.Result.Value.(string)
	return text
}

// The page of --admin shows requests and rolling restarts as they happen, on a wide screen and
// on a phone, and its scripts never complain.
func TestAdminPage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	b := findBrowser(t)
	p := startPreforked(t, "--admin", "127.0.0.1:0", "--profiles")
	page := p.admin(t).url + "/"
	wide, phone := b.open(t), b.open(t)
	for _, v := range []*tab{wide, phone} {
		size := map[string]any{"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": false}
		if v == phone {
			size = map[string]any{"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}
		}
		v.call("Emulation.setDeviceMetricsOverride", size)
		v.call("Page.navigate", map[string]any{"url": page})
	}
	shows := func(what string) {
		t.Helper()
		for _, v := range []*tab{wide, phone} {
			eventually(t, "the page shows "+what, func() bool {
				if _, err := p.get("/plaintext"); err != nil {
					t.Error(err)
				}
				return strings.Contains(v.text(), what)
			})
		}
	}
	shows("live")
	shows("2 of 2\nworkers ready")
	p.Process.Signal(syscall.SIGHUP)
	shows("version 2 is wanted")
	shows("worker 1.2 (")
	shows("has ended")
	const links = `[...document.querySelectorAll("#workers a")].map(a => a.pathname).join()`
	link, _ := wide.call("Runtime.evaluate", map[string]any{"expression": links, "returnByValue": true}).Result.Result.Value.(string)
	if !strings.Contains(link, "/workers/1.2/pprof/") {
		t.Errorf("profiles: %q", link)
	}
	for _, v := range []*tab{wide, phone} {
		fits := v.call("Runtime.evaluate", map[string]any{"expression": "document.documentElement.scrollWidth <= innerWidth", "returnByValue": true})
		if fits.Result.Result.Value != true {
			t.Error("the page is wider than the window")
		}
		if text := v.text(); !strings.Contains(text, "live") || len(v.complaints) > 0 {
			t.Errorf("%s\ncomplaints: %v", text, v.complaints)
		}
	}
}
