package autobahn

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/websocket"
)

// TestClient runs the suite's fuzzing server against websocket.Dial: with Read and, under
// another name, with callbacks.
func TestClient(t *testing.T) {
	s := startSuite(t)
	s.run("read", s.echoLoop)
	s.run("callbacks", s.echoCallbacks)
	s.check()
}

// TestClientHTTP2 is TestClient over HTTP/2 (RFC 8441): all connections are streams of one.
func TestClientHTTP2(t *testing.T) {
	s := startSuite(t)
	s.url = "ws://" + bridgeToSuite(t, s.addr)
	s.client = &sluice.Client{HTTP2: sluice.HTTP2Only}
	defer s.client.CloseIdleConnections()
	s.run("read", s.echoLoop)
	s.run("callbacks", s.echoCallbacks)
	s.check()
}

// TestClientTLS is TestClient with callbacks, over TLS.
func TestClientTLS(t *testing.T) {
	s := startSuite(t)
	s.url = "wss://" + s.addr // the suite checks the port
	bridge := bridgeTLS(t, s.addr)
	s.dial = func(ctx context.Context, _ string) (net.Conn, error) { return sluice.DialContext(ctx, bridge) }
	s.run("callbacks", s.echoCallbacks)
	s.check()
}

// startSuite starts the fuzzing server.
func startSuite(t *testing.T) *suite {
	wstest := findSuite(t)
	t.Parallel()
	s := &suite{t: t, dir: t.TempDir(), addr: "127.0.0.1:" + freePort(t), ended: make(chan struct{})}
	s.url = "ws://" + s.addr
	spec, err := json.Marshal(map[string]any{
		"url": s.url, "outdir": filepath.Join(s.dir, "report"), "cases": caseNames(),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.dir, "spec.json")
	if err := os.WriteFile(file, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	// Without a page of the reports, whose port all would share.
	command := exec.Command(wstest, "-m", "fuzzingserver", "-s", file, "--webport=0")
	command.Dir, command.Stdout, command.Stderr = s.dir, t.Output(), t.Output()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = command.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-s.ended
	})
	if s.cases, err = strconv.Atoi(s.count()); err != nil || s.cases == 0 {
		t.Fatalf("%d cases: %v", s.cases, err)
	}
	return s
}

// run runs all cases with echo, under the name agent.
func (s *suite) run(agent string, echo func(url string)) {
	for i := range s.cases {
		echo(fmt.Sprintf("%s/runCase?case=%d&agent=%s", s.url, i+1, agent))
	}
	s.echoLoop(fmt.Sprintf("%s/updateReports?agent=%s", s.url, agent))
	s.agents++
}

// check checks the reports.
func (s *suite) check() {
	text, err := os.ReadFile(filepath.Join(s.dir, "report", "index.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	var results map[string]map[string]struct{ Behavior, BehaviorClose string }
	if err := json.Unmarshal(text, &results); err != nil {
		s.t.Fatal(err)
	}
	if len(results) != s.agents {
		s.t.Fatalf("there are reports of %d clients", len(results))
	}
	for agent, cases := range results {
		if len(cases) != s.cases {
			s.t.Errorf("%s: %d cases, want %d", agent, len(cases), s.cases)
		}
		counts := map[string]int{}
		for name, result := range cases {
			counts[result.Behavior+" "+result.BehaviorClose]++
			if !isGood(result.Behavior) || !isGood(result.BehaviorClose) {
				s.t.Errorf("%s: %s: %s, %s", agent, name, result.Behavior, result.BehaviorClose)
			}
		}
		s.t.Logf("%s: %v", agent, counts)
	}
}

// isGood reports whether a result is right; some cases have no right one.
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
	t      *testing.T
	dir    string
	addr   string
	url    string // of the suite, or a bridge to it
	client *sluice.Client
	dial   func(ctx context.Context, addr string) (net.Conn, error)
	cases  int
	agents int           // that have run
	ended  chan struct{} // closed when its process has ended
}

// options are those of the cases. Messages of up to 16 MiB are part of them.
func (s *suite) options(e *websocket.Endpoint) *websocket.DialOptions {
	e.ReadLimit, e.Compression = 32<<20, websocket.CompressionTakeover
	return &websocket.DialOptions{Endpoint: e, Client: s.client, Dial: s.dial, TLSConfig: &tls.Config{InsecureSkipVerify: true}}
}

// count asks for the number of cases, until the server is there. On a busy machine that
// takes more than half a minute.
func (s *suite) count() string {
	for end := time.Now().Add(5 * time.Minute); ; {
		c, err := websocket.Dial(s.t.Context(), s.url+"/getCaseCount", nil)
		if err != nil {
			select {
			case <-s.ended:
				s.t.Fatal("the suite has ended")
			case <-time.After(100 * time.Millisecond):
			}
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
func (s *suite) echoLoop(url string) {
	c, err := websocket.Dial(s.t.Context(), url, s.options(&websocket.Endpoint{}))
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
func (s *suite) echoCallbacks(url string) {
	ended := make(chan bool)
	_, err := websocket.Dial(s.t.Context(), url, s.options(&websocket.Endpoint{
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
