package autobahn

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/websocket"
)

// TestClient runs the suite's fuzzing server against websocket.Dial: with Read and, under
// another name, with callbacks.
func TestClient(t *testing.T) {
	wstest := findSuite(t)
	dir := t.TempDir()
	port := freePort(t)
	spec, err := json.Marshal(map[string]any{
		"url": "ws://127.0.0.1:" + port, "outdir": filepath.Join(dir, "report"), "cases": caseNames(),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "spec.json")
	if err := os.WriteFile(file, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(wstest, "-m", "fuzzingserver", "-s", file)
	command.Dir = dir
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}()
	s := suite{t, "ws://127.0.0.1:" + port}
	count, err := strconv.Atoi(s.count())
	if err != nil || count == 0 {
		t.Fatalf("%d cases: %v", count, err)
	}
	for agent, run := range map[string]func(url string){"read": s.echoLoop, "callbacks": s.echoCallbacks} {
		for i := range count {
			run(fmt.Sprintf("%s/runCase?case=%d&agent=%s", s.url, i+1, agent))
		}
		s.echoLoop(fmt.Sprintf("%s/updateReports?agent=%s", s.url, agent))
	}
	text, err := os.ReadFile(filepath.Join(dir, "report", "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var results map[string]map[string]struct{ Behavior, BehaviorClose string }
	if err := json.Unmarshal(text, &results); err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 {
		t.Fatalf("there are reports of %d clients", len(results))
	}
	for agent, cases := range results {
		if len(cases) != count {
			t.Errorf("%s: %d cases, want %d", agent, len(cases), count)
		}
		for name, result := range cases {
			if !isGood(result.Behavior) || !isGood(result.BehaviorClose) {
				t.Errorf("%s: %s: %s, %s", agent, name, result.Behavior, result.BehaviorClose)
			}
		}
	}
}

// isGood tells whether a result is right; some cases have no right one.
func isGood(result string) bool { return result == "OK" || result == "INFORMATIONAL" }

// findSuite returns the path of wstest.
func findSuite(t *testing.T) string {
	if wstest := os.Getenv("WSTEST"); wstest != "" {
		return wstest
	}
	wstest, err := exec.LookPath("wstest")
	if err != nil {
		t.Skip(err)
	}
	return wstest
}

func freePort(t *testing.T) string {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
}

// A suite is a fuzzing server that runs.
type suite struct {
	t   *testing.T
	url string
}

// options are those of the cases. Messages of up to 16 MiB are part of them.
func options(e *websocket.Endpoint) *websocket.DialOptions {
	e.ReadLimit, e.Compression = 32<<20, websocket.CompressionTakeover
	return &websocket.DialOptions{Endpoint: e}
}

// count asks for the number of cases, until the server is there.
func (s suite) count() string {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		c, err := websocket.Dial(s.t.Context(), s.url+"/getCaseCount", nil)
		if err != nil {
			if time.Now().After(end) {
				s.t.Fatal(err)
			}
			continue
		}
		m, err := c.Read(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		text := string(m.Data)
		_ = c.Close(websocket.CodeNormal, "")
		return text
	}
}

// echoLoop echoes with Read until the connection ends.
func (s suite) echoLoop(url string) {
	c, err := websocket.Dial(s.t.Context(), url, options(&websocket.Endpoint{}))
	if err != nil {
		s.t.Errorf("%s: %v", url, err)
		return
	}
	for {
		m, err := c.Read(s.t.Context())
		if err != nil {
			break
		}
		if c.Write(s.t.Context(), m.Kind, m.Data) != nil {
			_, _ = c.Read(s.t.Context()) // it has ended, or ends
			break
		}
	}
	<-c.Context().Done()
}

// echoCallbacks echoes with callbacks until the connection ends.
func (s suite) echoCallbacks(url string) {
	ended := make(chan bool)
	_, err := websocket.Dial(s.t.Context(), url, options(&websocket.Endpoint{
		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
			return c.Write(context.Background(), m.Kind, m.Data)
		},
		OnClose: func(*websocket.Conn, error) { close(ended) },
	}))
	if err != nil {
		s.t.Errorf("%s: %v", url, err)
		return
	}
	<-ended
}
