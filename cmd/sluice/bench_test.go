package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/websocket"
)

// benchServer serves on a listener in this process, and counts requests.
func benchServer(t *testing.T, ln net.Listener) (requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	srv := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		requests.Add(1)
		switch string(ctx.Path()) {
		case "/500":
			ctx.SetStatusCode(500)
		case "/mixed":
			ctx.SetStatusCode([]int{200, 404, 503}[ctx.ID()%3])
		case "/chunked":
			ctx.SetBodyStream(strings.NewReader(strings.Repeat("x", 10000)), -1)
		case "/echo":
			ctx.SetBody(ctx.PostBody())
		default:
			ctx.SetBodyString("Hello, World!")
		}
	}}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	t.Cleanup(func() {
		ln.Close()
		srv.Shutdown()
		<-ended
	})
	return requests
}

func tcpListener(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// runs runs "sluice bench" and returns what it has printed, and its exit status.
func runs(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := limited(t, binary, append([]string{"bench"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// reportOf reads what --json has written. A field that the schema does not have is
// an error.
func reportOf(t *testing.T, text string) (report benchReport) {
	t.Helper()
	in := json.NewDecoder(strings.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&report); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return report
}

func TestBenchEndToEnd(t *testing.T) {
	ln := tcpListener(t)
	requests := benchServer(t, ln)
	url := "http://" + ln.Addr().String()
	for _, c := range []struct {
		args  string
		path  string
		check func(r benchReport) bool
	}{
		{"", "/", func(r benchReport) bool { return r.Status["200"] == 50 && r.Loop == "closed" && r.KeepAlive }},
		{"--pipeline 8 -c 2", "/", func(r benchReport) bool { return r.Status["200"] == 50 && r.Pipeline == 8 && r.ConnectionsMade == 2 }},
		{"--http2 -m 8 -c 2", "/", func(r benchReport) bool {
			return r.Status["200"] == 50 && r.Protocol == "HTTP/2" && r.Streams == 8 && r.ConnectionsMade == 2
		}},
		{"--http2 -m 3 -b hello -H x-a:b", "/echo", func(r benchReport) bool { return r.Status["200"] == 50 && r.Method == "POST" }},
		{"--http2 -R 1000", "/chunked", func(r benchReport) bool { return r.Loop == "open" && r.BytesRead > 50*10000 }},
		{"-X HEAD", "/chunked", func(r benchReport) bool { return r.Status["200"] == 50 && r.Method == "HEAD" }},
		{"", "/chunked", func(r benchReport) bool { return r.Status["200"] == 50 && r.BytesRead > 50*10000 }},
		{"", "/500", func(r benchReport) bool { return r.Status["500"] == 50 && len(r.Status) == 1 }},
		{"-b hello", "/echo", func(r benchReport) bool { return r.Status["200"] == 50 && r.Method == "POST" }},
		{"--disable-keepalive -c 4", "/", func(r benchReport) bool { return r.ConnectionsMade == 50 && !r.KeepAlive }},
		{"-R 1000", "/", func(r benchReport) bool {
			return r.Loop == "open" && r.TargetRate == 1000 && r.Service.Count == 50 && r.ElapsedSeconds >= 0.049
		}},
	} {
		t.Run(c.path+" "+c.args, func(t *testing.T) {
			before := requests.Load()
			args := append(strings.Fields(c.args), "-n", "50", "-o", "-", url+c.path)
			stdout, stderr, status := runs(t, args...)
			r := reportOf(t, stdout)
			if status != 0 || r.Responses != 50 || r.Sent != 50 || r.Latency.Count != 50 || requests.Load()-before != 50 || !c.check(r) {
				t.Errorf("exit status %d, %d requests\n%s\n%s", status, requests.Load()-before, stdout, stderr)
			}
			if !strings.Contains(stderr, "Requests   50 in ") {
				t.Errorf("the summary says\n%s", stderr)
			}
		})
	}
}

// TestBenchJSON: the schema is what the guide has, and its numbers agree.
func TestBenchJSON(t *testing.T) {
	ln := tcpListener(t)
	benchServer(t, ln)
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, bytes.Repeat([]byte("old"), 10000), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, status := runs(t, "-n", "300", "-c", "3", "-q", "-o", file, "http://user:secret@"+ln.Addr().String()+"/mixed")
	if status != 0 || stdout != "" || stderr != "" {
		t.Fatalf("exit status %d\n%s%s", status, stdout, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "secret") {
		t.Error("the password is in it")
	}
	r := reportOf(t, string(text))
	var sum int64
	for _, n := range r.Status {
		sum += n
	}
	if r.Tool != "sluice bench" || r.Schema != 1 || sum != 300 || r.Connections != 3 || r.Client.CPUSeconds <= 0 && processCPU() > 0 {
		t.Errorf("%+v", r)
	}
	h, err := hdrhistogram.Decode([]byte(r.Latency.Histogram))
	if err != nil || h.TotalCount() != 300 || float64(h.ValueAtPercentile(99))/1000 != r.Latency.Percentiles[4].Microseconds {
		t.Errorf("the histogram is another: %v", err)
	}
	if !slices.IsSortedFunc(r.Latency.Percentiles, func(a, b benchPercentile) int { return int(a.Microseconds*1e3) - int(b.Microseconds*1e3) }) {
		t.Errorf("percentiles %v", r.Latency.Percentiles)
	}
	var keys map[string]any
	if err := json.Unmarshal(text, &keys); err != nil {
		t.Fatal(err)
	}
	want := []string{"tool", "schema", "time", "url", "method", "address", "loop", "connections", "threads", "protocol", "pipeline", "keepAlive",
		"timeoutSeconds", "requestBytes", "elapsedSeconds", "isInterrupted", "sent", "responses", "responsesPerSecond", "unanswered", "unsent",
		"bytesRead", "bytesWritten", "connectionsMade", "status", "errors", "latency", "ratesPerSecond", "client"}
	for _, key := range want {
		if _, ok := keys[key]; !ok {
			t.Errorf("there is no %s", key)
		}
		delete(keys, key)
	}
	if len(keys) > 0 {
		t.Errorf("there are %v, too", keys)
	}
}

func TestBenchSummary(t *testing.T) {
	ln := tcpListener(t)
	benchServer(t, ln)
	stdout, _, status := runs(t, "-n", "3000", "-c", "3", "-t", "2", "--latency", "-R", "20000", "http://"+ln.Addr().String()+"/mixed")
	if status != 0 {
		t.Fatalf("exit status %d", status)
	}
	for _, pattern := range []string{
		`^GET http://127\.0\.0\.1:\d+/mixed\n  3 connections, 2 threads, open loop, 20,000/s\n`,
		`\n  Requests   3,000 in [\d.]+m?s, [\d.,]+/s`,
		`\n  Transfer   [\d.]+ KiB read, [\d.]+ [KM]iB/s; [\d.]+ KiB written\n`,
		`\n  Latency    mean [\d.]+.?s, stdev [\d.]+.?s, max [\d.]+.?s\n        50%  [\d.]+.?s\n        75%  `,
		`\n       100%  [\d.]+.?s\n  Service    mean `,
		`\n  Status     2xx [\d,]+, 4xx [\d,]+ \(404: [\d,]+\), 5xx [\d,]+ \(503: [\d,]+\)\n  Errors     none\n`,
	} {
		if !regexp.MustCompile(pattern).MatchString(stdout) {
			t.Errorf("there is no %s in\n%s", pattern, stdout)
		}
	}
}

// TestBenchInterrupt: Ctrl-C ends it with what was measured.
func TestBenchInterrupt(t *testing.T) {
	ln := tcpListener(t)
	benchServer(t, ln)
	file := filepath.Join(t.TempDir(), "run.json")
	cmd := limited(t, binary, "bench", "-d", "1h", "-c", "2", "--progress", "-o", file, "http://"+ln.Addr().String())
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() || !regexp.MustCompile(`^   1s  [\d.,]+/s  p50 \S+  p99 \S+  max \S+$`).MatchString(lines.Text()) {
		t.Errorf("progress: %q", lines.Text())
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // to the end: Wait closes the pipe
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
	if !strings.Contains(stdout.String(), "closed loop, interrupted\n") || !strings.Contains(stdout.String(), "Errors     none") {
		t.Errorf("it says\n%s", stdout.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if r := reportOf(t, string(text)); !r.IsInterrupted || r.Responses == 0 {
		t.Errorf("%+v", r)
	}
}

// TestBenchNothing: without a response the exit status is 1, and the JSON has why.
func TestBenchNothing(t *testing.T) {
	refused := tcpListener(t)
	refused.Close()
	rude := tcpListener(t)
	defer rude.Close()
	go func() {
		for {
			c, err := rude.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for _, c := range []struct {
		url, says string
		check     func(r benchReport) bool
	}{
		{refused.Addr().String(), "cannot connect to 127.0.0.1:", func(r benchReport) bool {
			return r.Errors.Connect > 0 && r.Sent == 0 && r.Errors.Examples["connect"] != ""
		}},
		{rude.Addr().String(), "there was no response", func(r benchReport) bool { return r.Errors.Read+r.Errors.Write+r.Errors.Connect == 10 }},
	} {
		stdout, stderr, status := runs(t, "-n", "10", "-c", "2", "-o", "-", c.url)
		if status != 1 || !strings.Contains(stderr, "sluice: "+c.says) {
			t.Errorf("exit status %d: %s", status, stderr)
		}
		if wanted := strings.HasPrefix(c.says, "there"); strings.Contains(stderr, "  Errors     ") != wanted {
			t.Errorf("a summary: %v\n%s", !wanted, stderr)
		}
		if r := reportOf(t, stdout); r.Responses != 0 || r.Latency.Count != 0 || !c.check(r) {
			t.Errorf("%s", stdout)
		}
	}
}

// TestBenchWebSocket: messages of WebSocket, also over TLS, where there are no event loops.
func TestBenchWebSocket(t *testing.T) {
	echo := &websocket.Endpoint{OnMessage: func(c *websocket.Conn, m websocket.Message) error {
		return c.Write(context.Background(), m.Kind, m.Data)
	}}
	certificate, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for scheme, serve := range map[string]func(*sluice.Server, net.Listener) error{
		"ws":  (*sluice.Server).Serve,
		"wss": func(s *sluice.Server, ln net.Listener) error { return s.ServeTLSEmbed(ln, certificate, key) },
	} {
		ln := tcpListener(t)
		srv := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Request.Header.Peek("X-A")) != "b" || echo.Upgrade(ctx, nil) != nil {
				ctx.Error("no", sluice.StatusForbidden)
			}
		}}
		ended := make(chan error, 1)
		go func() { ended <- serve(srv, ln) }()
		t.Cleanup(func() {
			srv.Shutdown()
			<-ended
		})
		url := scheme + "://" + ln.Addr().String() + "/chat"
		for args, size := range map[string]int{"": 32, "--message-size 70": 70, "-b héllo --pipeline 4": 6, "-R 2000 --latency": 32} {
			stdout, stderr, status := runs(t, append(strings.Fields(args), "-k", "-H", "X-A: b", "-n", "40", "-c", "4", "-o", "-", url)...)
			r := reportOf(t, stdout)
			if status != 0 || r.Responses != 40 || r.MessageBytes != size || r.Protocol != "WebSocket" || len(r.Status) != 0 || r.ConnectionsMade == 0 {
				t.Errorf("%s %s: exit status %d\n%s%s", scheme, args, status, stdout, stderr)
			}
			if !strings.Contains(stderr, "  Messages   40 in ") || strings.Contains(stderr, "Status") || !strings.Contains(stderr, fmt.Sprintf("WebSocket, messages of %d B", size)) {
				t.Errorf("the summary says\n%s", stderr)
			}
		}
		if _, stderr, status := runs(t, "-k", "-n", "4", url); status != 1 || !strings.Contains(stderr, "status 403") {
			t.Errorf("%s: exit status %d, %s", scheme, status, stderr)
		}
	}
}

func TestBenchUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Skip(err)
	}
	benchServer(t, ln)
	stdout, stderr, status := runs(t, "-n", "20", "-c", "2", "--unix", path, "http://any.example/")
	if status != 0 || !strings.Contains(stdout, "2xx 20\n") {
		t.Errorf("exit status %d\n%s%s", status, stdout, stderr)
	}
}

func TestBenchTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := writePair(t, dir, "localhost")
	p := start(t, "--tls-cert", cert, "--tls-key", key)
	url := strings.Replace(p.url, "127.0.0.1", "localhost", 1)
	for args, wanted := range map[string]int{"-k": 0, "--cacert " + cert: 0, "--disable-keepalive -k": 0, "": 1} {
		stdout, stderr, status := runs(t, append(strings.Fields(args), "-n", "20", "-c", "2", url)...)
		if status != wanted || (status == 0) != strings.Contains(stdout, "2xx 20\n") {
			t.Errorf("%q: exit status %d\n%s%s", args, status, stdout, stderr)
		}
		if status == 1 && !strings.Contains(stderr, "certificate") {
			t.Errorf("it says %s", stderr)
		}
	}
}

// TestBenchHTTP3: --http3 is HTTP/3, with as many connections and streams as the flags say.
func TestBenchHTTP3(t *testing.T) {
	url := serveHTTP3(t, mirror)
	for _, args := range []string{"-m 5 -c 2", "-m 5 -c 2 -R 2000", "-m 5 -c 2 --warm-up", "--disable-keepalive -c 2 -b hello"} {
		stdout, stderr, status := runs(t, append(strings.Fields(args), "--http3", "-k", "-n", "50", "-o", "-", url)...)
		r := reportOf(t, stdout)
		conns := int64(2)
		switch {
		case strings.Contains(args, "warm-up"):
			conns = 0 // they were there before
		case strings.Contains(args, "keepalive"):
			conns = 50
		}
		if status != 0 || r.Responses != 50 || r.Status["200"] != 50 || r.Protocol != "HTTP/3" || r.ConnectionsMade != conns {
			t.Errorf("%s: exit status %d\n%s\n%s", args, status, stdout, stderr)
		}
		if !strings.Contains(stderr, "HTTP/3") {
			t.Errorf("%s: the summary says\n%s", args, stderr)
		}
	}
	if stdout, stderr, status := runs(t, "--http3", "-n", "1", url); status != 1 || !strings.Contains(stderr, "certificate") {
		t.Errorf("an unknown certificate: exit status %d\n%s%s", status, stdout, stderr)
	}
}

func TestBenchFlags(t *testing.T) {
	for args, says := range map[string]string{
		"":                                   "URL is missing",
		"-c 0 x":                             "--connections takes",
		"-t 0 x":                             "--threads takes",
		"-n 0 x":                             "--requests takes",
		"-d 0 x":                             "--duration takes",
		"-d soon x":                          "invalid argument",
		"-R 0 x":                             "--rate takes",
		"-R nan x":                           "--rate takes",
		"--timeout 0 x":                      "--timeout takes",
		"--pipeline 0 x":                     "--pipeline takes",
		"--pipeline 2 --disable-keepalive x": "exclude each other",
		"--http2 -m 2 --disable-keepalive x": "exclude each other",
		"--warm-up --disable-keepalive x":    "exclude each other",
		"--http2 --pipeline 2 x":             "--pipeline excludes",
		"--http3 --pipeline 2 https://x":     "--pipeline excludes",
		"--http3 http://x":                   "--http3 needs",
		"--http3 --http2 https://x":          "--http3 needs",
		"--http3 --sse https://x":            "--sse excludes",
		"--http2 -m 0 x":                     "--streams takes",
		"-m 2 x":                             "--streams needs --http2",
		"-X GET --method GET x":              "are the same",
		"-X G,T x":                           "is not a method",
		"-X CONNECT x":                       "is for proxies",
		"-b a --data-raw b x":                "exclude each other",
		"-b @ x":                             "no name behind @",
		"-b @/none/x 127.0.0.1":              "no such file",
		"--message-size 5 x":                 "needs a URL of ws://",
		"--message-size -1 ws://x":           "--message-size takes",
		"--message-size 1 -b a ws://x":       "exclude each other",
		"--http2 ws://x":                     "ws:// excludes",
		"-X GET ws://x":                      "ws:// excludes",
		"--sse -R 1 x":                       "--sse excludes",
		"--sse ws://x":                       "--sse excludes",
		"-k --cacert f x":                    "exclude each other",
		"-q --progress x":                    "exclude each other",
		"--json= x":                          "--json is empty",
		"-o /none/x 127.0.0.1":               "--json: ",
		"--unix= x":                          "--unix is empty",
		"-H bad 127.0.0.1":                   "there is no colon",
		"-H Content-Length:1 127.0.0.1":      "follows from the body",
		"ftp://127.0.0.1":                    "neither http nor https",
		"http://us%0Aer:secret@127.0.0.1":    "control character in the user name",
		"http://":                            "there is no host",
		"http://127.0.0.1:0":                 "there is no port 0",
		"http://127.0.0.1:99999":             "there is no port",
		"http://127.0.0.1:x":                 "URL: ",
		"http://bücher.example":              "in ASCII",
		"-c 100000000 127.0.0.1":             "ulimit -n",
	} {
		want := 2
		if strings.HasSuffix(args, " 127.0.0.1") && !strings.HasPrefix(args, "-H") { // the command is right
			want = 1
		}
		stdout, stderr, status := runs(t, strings.Fields(args)...)
		if status != want || stdout != "" || !strings.HasPrefix(stderr, "sluice: ") || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit status %d, %s", args, status, fmt.Sprint(stdout, stderr))
		}
	}
}
