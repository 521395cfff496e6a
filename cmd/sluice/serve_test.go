package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binary is the command under test, built once by TestMain.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sluice")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "sluice")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic(string(out))
	}
	// Processes that tests kill leave their temporary folders behind.
	os.Setenv("TMPDIR", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// process is a running "sluice serve".
type process struct {
	*exec.Cmd
	url    string
	engine string // as the log says it
	logs   *bufio.Scanner
}

var serving = regexp.MustCompile(`serves (https?://[^\s,]+), engine (.+)$`)

// engines are the engines that this system serves TCP with.
func engines() []string {
	if runtime.GOOS == "linux" {
		return []string{"perconn", "epoll"}
	}
	return []string{"perconn"}
}

// onEachEngine runs a test with the arguments that choose each engine.
func onEachEngine(t *testing.T, test func(t *testing.T, engine ...string)) {
	for _, name := range engines() {
		t.Run(name, func(t *testing.T) { test(t, "--engine", name) })
	}
}

// start runs "sluice serve" on a free port and waits for its first log line.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startCommand(t, limited(t, binary, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...))
}

// processBound is how long a test lets a process live. It is only reached when a test fails.
const processBound = 2 * time.Minute

// limited is exec.Command of a process that is killed after processBound. A test that waits for
// it then continues, even if a worker of the process still holds its output open.
func limited(t testing.TB, name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), processBound)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// startCommand starts cmd, which is "sluice serve", and waits for its first log
// line.
func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	p := &process{Cmd: cmd, logs: bufio.NewScanner(stderr)}
	line := p.logLine(t, "serves ")
	match := serving.FindStringSubmatch(line)
	if match == nil {
		t.Fatalf("it does not say what it serves: %s", line)
	}
	p.url, p.engine = match[1], match[2]
	return p
}

// logLine returns the next log line with text in it.
func (p *process) logLine(t *testing.T, text string) string {
	t.Helper()
	for p.logs.Scan() {
		if strings.Contains(p.logs.Text(), text) {
			return p.logs.Text()
		}
	}
	t.Fatalf("no log line with %q", text)
	return ""
}

// client trusts any certificate; it gives up on a server that hangs.
func client() *http.Client {
	return &http.Client{
		Timeout: 20 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask sends a request with the fields, which are names and values in turn.
func (p *process) ask(t *testing.T, method, path string, fields ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, p.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := client().Do(req)
	_, body := answer(t, resp, err)
	return resp, body
}

// interrupt sends a signal and returns what the process ends with.
func (p *process) interrupt(t *testing.T, s os.Signal) error {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	for p.logs.Scan() { // to the end: Wait closes the pipe
	}
	return p.Wait()
}

// tree makes a folder of files with the contents.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func answer(t *testing.T, resp *http.Response, err error) (status int, body string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestEndpoints(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine ...string) {
		t.Run("http", func(t *testing.T) { testEndpoints(t, start(t, engine...)) })
		t.Run("https", func(t *testing.T) { testEndpoints(t, start(t, append(engine, "--tls-self-signed")...)) })
		t.Run("compact/https", func(t *testing.T) {
			testEndpoints(t, start(t, append(engine, "--tls-self-signed", "--compact-tls")...))
		})
	})
}

func testEndpoints(t *testing.T, p *process) {
	if scheme := filepath.Base(t.Name()); !strings.HasPrefix(p.url, scheme+"://") {
		t.Fatalf("serves %q, want %s", p.url, scheme)
	}
	c := client()
	for _, want := range []struct {
		path, body string
		status     int
	}{
		{"/", "This is <code>sluice serve</code>", 200},
		{"/plaintext", "Hello, World!", 200},
		{"/json", `{"message":"Hello, World!"}`, 200},
		{"/stream?n=3&ms=1", "line 1 of 3\nline 2 of 3\nline 3 of 3\n", 200},
		{"/sleep?ms=1", "slept 1ms", 200},
		{"/none", "404", 404},
	} {
		resp, err := c.Get(p.url + want.path)
		if status, body := answer(t, resp, err); status != want.status || !strings.Contains(body, want.body) {
			t.Errorf("%s: %d %q, want %d %q", want.path, status, body, want.status, want.body)
		}
	}
	resp, err := c.Post(p.url+"/echo", "text/x-test", strings.NewReader("some body"))
	if status, body := answer(t, resp, err); status != 200 || body != "some body" {
		t.Errorf("/echo: %d %q", status, body)
	}
}

// TestEngine: the log says which engine serves, and why.
func TestEngine(t *testing.T) {
	auto := "epoll (auto: linux, TCP listener)"
	if runtime.GOOS != "linux" {
		auto = "perconn (auto: "
	}
	if p := start(t); !strings.HasPrefix(p.engine, auto) {
		t.Errorf("by default the engine is %q, want %q", p.engine, auto)
	}
	for _, name := range engines() {
		if p := start(t, "--engine", name); p.engine != name+" (as set)" {
			t.Errorf("--engine %s: %q", name, p.engine)
		}
	}
	out, err := limited(t, binary, "serve", "--engine", "steam", "--addr", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), `"steam"`) || !strings.Contains(string(out), "auto, perconn or epoll") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestInterruptDrains(t *testing.T) {
	onEachEngine(t, testInterruptDrains)
}

func testInterruptDrains(t *testing.T, engine ...string) {
	p := start(t, engine...)
	resp, err := client().Get(p.url + "/stream?n=3&ms=300")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(body), "line 3 of 3\n") {
		t.Errorf("the request that was running got %q, %v", body, err)
	}
	p.logLine(t, "stopping")
	p.logLine(t, "stopped")
	if err := p.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
}

// With --admin one process answers what a master does, and is not ready while it ends.
func TestAdminOfOneProcess(t *testing.T) {
	p := start(t, "--admin", "127.0.0.1:0", "--drain-wait", "1h")
	_, addr, _ := strings.Cut(p.logLine(t, "status and metrics: "), "status and metrics: ")
	admin := &process{url: "http://" + addr}
	p.ask(t, "GET", "/plaintext")
	for path, want := range map[string]string{
		"/":                   "1 wanted, 1 ready",
		"/status?format=json": `"requests":1,`,
		"/metrics":            "\nsluice_requests_total{code=\"2xx\"} 1\n",
		"/healthz":            "ok",
		"/readyz":             "ok",
		"/startupz":           "ok",
	} {
		if resp, body := admin.ask(t, "GET", path); resp.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %s, %q", path, resp.Status, body)
		}
	}
	if _, body := admin.ask(t, "GET", "/metrics"); !strings.Contains(body, `sluice_websocket_open{endpoint="echo"} 0`) || !strings.Contains(body, `sluice_sse_streams_open{hub="events"} 0`) {
		t.Error(body)
	}
	if resp, body := admin.ask(t, "GET", "/workers/0/pprof/heap"); resp.StatusCode != 404 || !strings.Contains(body, "profiles are off") {
		t.Errorf("%s: %q", resp.Status, body)
	}
	if resp, body := admin.ask(t, "POST", "/restart"); resp.StatusCode != 404 || strings.Contains(body, "restart") {
		t.Errorf("/restart: %s, %q", resp.Status, body)
	}
	p.Process.Signal(syscall.SIGTERM)
	p.logLine(t, "stopping in 1h0m0s")
	eventually(t, "not ready", func() bool {
		resp, _ := admin.ask(t, "GET", "/readyz")
		return resp.StatusCode == 503
	})
	if resp, _ := p.ask(t, "GET", "/plaintext"); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	p.Process.Signal(syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// With --drain-wait it goes on accepting after a signal, until another one.
func TestDrainWait(t *testing.T) {
	p := start(t, "--drain-wait", "1h")
	p.Process.Signal(syscall.SIGTERM)
	p.logLine(t, "stopping in 1h0m0s")
	if resp, body := p.ask(t, "GET", "/plaintext"); resp.StatusCode != 200 {
		t.Errorf("%s: %q", resp.Status, body)
	}
	p.Process.Signal(syscall.SIGTERM)
	p.logLine(t, "stopped")
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	p = start(t, "--drain-wait", "1ms")
	p.Process.Signal(syscall.SIGTERM)
	p.logLine(t, "stopped")
}

func TestSecondInterruptEnds(t *testing.T) {
	onEachEngine(t, testSecondInterruptEnds)
}

func testSecondInterruptEnds(t *testing.T, engine ...string) {
	p := start(t, engine...)
	resp, err := client().Get(p.url + "/stream?n=2&ms=60000")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, text := range []string{"stopping", ""} {
		if err := p.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			p.logLine(t, text)
		}
	}
	if err := p.Wait(); err == nil {
		t.Error("exit status 0 with a request cut off")
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the request that was cut off got a complete answer")
	}
}

func TestBadAddress(t *testing.T) {
	out, err := limited(t, binary, "serve", "--addr", "127.0.0.1:notaport").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "sluice:") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServeHTTP2: clients get HTTP/2 by ALPN and by prior knowledge, and the
// access log names it; with --http2=false, they get HTTP/1.1.
func TestServeHTTP2(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine ...string) {
		for _, c := range []struct {
			name, want string
			args       []string
		}{
			{"TLS", "HTTP/2.0", []string{"--tls-self-signed"}},
			{"plain text", "HTTP/2.0", nil},
			{"TLS, off", "HTTP/1.1", []string{"--http2=false", "--tls-self-signed"}},
		} {
			log := filepath.Join(t.TempDir(), "access.log")
			p := start(t, append(append(engine, "--access-log", log), c.args...)...)
			protocols := new(http.Protocols)
			protocols.SetHTTP2(true)
			protocols.SetUnencryptedHTTP2(strings.HasPrefix(p.url, "http:"))
			protocols.SetHTTP1(strings.HasPrefix(p.url, "https:"))
			browser := client()
			browser.Transport.(*http.Transport).Protocols = protocols
			resp, err := browser.Get(p.url + "/plaintext")
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(body) != "Hello, World!" || resp.Proto != c.want {
				t.Errorf("%s: %q over %s, %v; want %s", c.name, body, resp.Proto, err, c.want)
			}
			browser.CloseIdleConnections()
			_ = p.Process.Signal(os.Interrupt)
			if err := p.Wait(); err != nil { // its end writes the log
				t.Errorf("%s: %v", c.name, err)
			}
			text, err := os.ReadFile(log)
			if err != nil || !strings.Contains(string(text), `"GET /plaintext `+c.want+`" 200 13`) {
				t.Errorf("%s: access log %q, %v", c.name, text, err)
			}
		}
	})
}
