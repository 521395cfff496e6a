package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/websocket"
)

// wsCommand is "sluice ws" with lines as its stdin.
func wsCommand(t *testing.T, lines string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, append([]string{"ws"}, args...)...)
	cmd.Stdin = strings.NewReader(lines)
	return cmd
}

// wsServer serves wsHandler.
func wsServer(t *testing.T) (url string) {
	return strings.Replace(listenFor(t, wsHandler()), "http://", "ws://", 1)
}

// wsHandler echoes. Some messages ask for something else.
func wsHandler() sluice.RequestHandler {
	e := &websocket.Endpoint{
		Protocols: []string{"v2"}, Origins: []string{"https://example.com"}, Compression: websocket.CompressionShared,
		OnOpen: func(c *websocket.Conn) error {
			if c.Protocol() != "" {
				return c.TryWrite(websocket.Text, []byte("protocol "+c.Protocol()))
			}
			return nil
		},
		OnMessage: func(c *websocket.Conn, m websocket.Message) error {
			switch string(m.Data) {
			case "bye":
				return &websocket.CloseError{Code: websocket.CodeNormal}
			case "refuse":
				return &websocket.CloseError{Code: 4004, Reason: "not \x1b[1mhere"}
			case "binary":
				return c.TryWrite(websocket.Binary, []byte{0, 0x1b, 0xff})
			}
			return c.TryWrite(m.Kind, m.Data)
		},
	}
	return func(ctx *sluice.RequestCtx) {
		if string(ctx.Request.Header.Peek("Authorization")) == "no" {
			ctx.Error("who are you?", sluice.StatusUnauthorized)
			return
		}
		if string(ctx.Request.Header.Peek("Authorization")) == "html" {
			ctx.Error("<p>a page</p>", sluice.StatusForbidden)
			ctx.SetContentType("text/html")
			return
		}
		_ = e.Upgrade(ctx, nil)
	}
}

func TestWS(t *testing.T) {
	url := wsServer(t)
	overHTTP3 := strings.Replace(serveHTTP3(t, wsHandler()), "https://", "wss://", 1)
	for name, test := range map[string]struct {
		args, stdin string
		want        output
	}{
		"echo":            {"", "one\n\ntwo\nbye\n", output{stdout: "one\n\ntwo\n"}},
		"compressed":      {"--compressed", strings.Repeat("x", 1000) + "\nbye", output{stdout: strings.Repeat("x", 1000) + "\n"}},
		"end of stdin":    {"--wait 2", "one\n", output{stdout: "one\n"}},
		"subprotocol":     {"--protocol v1 --protocol v2", "bye\n", output{stdout: "protocol v2\n"}},
		"binary":          {"", "binary\nbye\n", output{stdout: "<3 bytes: 001bff>\n"}},
		"another code":    {"", "refuse\n", output{stderr: "closed by the peer with code 4004: not \\x1b[1mhere", status: 3}},
		"allowed origin":  {"--origin https://example.com", "bye\n", output{}},
		"another origin":  {"--origin https://evil.com", "bye\n", output{stderr: "status 403", status: 1}},
		"refused":         {"-H Authorization:no", "bye\n", output{stderr: "\nwho are you?\n", status: 1}},
		"refused in HTML": {"-H Authorization:html", "bye\n", output{stderr: "the server has answered with status 403", status: 1}},
		"malformed field": {"-H no-colon", "", output{stderr: "no-colon", status: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, over := range []string{url, "--http3 -k " + overHTTP3} {
				got := finish(t, wsCommand(t, test.stdin, strings.Fields(test.args+" "+over)...))
				if got.stdout != test.want.stdout || got.status != test.want.status || !strings.Contains(got.stderr, test.want.stderr) ||
					test.want.stderr == "" && got.stderr != "" {
					t.Errorf("%s: got %+v, want %+v", over, got, test.want)
				}
			}
		})
	}
	if got := finish(t, wsCommand(t, "", "ws://127.0.0.1:1")); got.status != 1 || got.stderr == "" {
		t.Errorf("nothing listens: %+v", got)
	}
	if got := finish(t, wsCommand(t, "", "--http3", overHTTP3)); got.status != 1 || !strings.Contains(got.stderr, "certificate") {
		t.Errorf("an unknown certificate: %+v", got)
	}
	for _, name := range []string{"a, b", "a b", ""} {
		if got := finish(t, wsCommand(t, "", "--protocol", name, url)); got.status != 2 || !strings.Contains(got.stderr, "is not the name of a subprotocol") {
			t.Errorf("--protocol %q: %+v", name, got)
		}
	}
	if got := finish(t, wsCommand(t, "", "--http3", url)); got.status != 2 || !strings.Contains(got.stderr, "--http3 needs") {
		t.Errorf("plain text over HTTP/3: %+v", got)
	}
}

// TestWSUnix: the URL may name a Unix socket.
func TestWSUnix(t *testing.T) {
	socket := filepath.ToSlash(filepath.Join(t.TempDir(), "s"))
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	e := &websocket.Endpoint{OnOpen: func(*websocket.Conn) error { return &websocket.CloseError{Code: 4001, Reason: "seen"} }}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) }}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	out, err := wsCommand(t, "", "ws+unix:"+socket+":/chat").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "4001: seen") {
		t.Errorf("%v, %q", err, out)
	}
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestWSJSON(t *testing.T) {
	got := finish(t, wsCommand(t, "one\nbinary\nbye\n", "--json", wsServer(t)))
	type line struct {
		Time       time.Time
		Kind, Data string
	}
	var lines []line
	for text := range strings.Lines(got.stdout) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		lines = append(lines, l)
	}
	if got.status != 0 || len(lines) != 2 || lines[0].Kind != "text" || lines[0].Data != "one" || lines[0].Time.IsZero() ||
		lines[1].Kind != "binary" || lines[1].Data != "ABv/" {
		t.Errorf("%+v: %+v", got, lines)
	}
}

// TestFormatMessage: a terminal obeys no message. Other outputs get it unchanged.
func TestFormatMessage(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		form messageForm
		kind websocket.Kind
		data string
		want string
	}{
		{formPlain, websocket.Text, "a\x1b[2Jb\u009b1m\r\x00\x7f", "a\x1b[2Jb\u009b1m\r\x00\x7f\n"},
		{formVisible, websocket.Text, "a\x1b[2Jb\u009b1m\r\x00\x7f", `a\x1b[2Jb\u009b1m\r\x00\x7f` + "\n"},
		{formVisible, websocket.Text, "{\n\t\"\u00e9\u65e5\": \"\\n\"}", "{\n\t\"\u00e9\u65e5\": \"\\n\"}\n"},
		{formVisible, websocket.Text, "", "\n"},
		{formVisible, websocket.Binary, "\x1b[2J", "<4 bytes: 1b5b324a>\n"},
		{formJSON, websocket.Text, "\x1b", `{"time":"2026-01-02T03:04:05Z","kind":"text","data":"\u001b"}` + "\n"},
	} {
		if got := formatMessage(websocket.Message{Kind: test.kind, Data: []byte(test.data)}, test.form, at); string(got) != test.want {
			t.Errorf("%d: %q became %q, want %q", test.form, test.data, got, test.want)
		}
	}
}

// TestWSInterrupt: Ctrl-C closes with 1000.
func TestWSInterrupt(t *testing.T) {
	ended := make(chan error, 1)
	e := &websocket.Endpoint{
		OnOpen:  func(c *websocket.Conn) error { return c.TryWrite(websocket.Text, []byte("opened")) },
		OnClose: func(_ *websocket.Conn, err error) { ended <- err },
	}
	url := strings.Replace(listenFor(t, func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) }), "http://", "ws://", 1)
	cmd := wsCommand(t, "", url)
	cmd.Stdin = nil
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Before it prints a message it may still be in the handshake, and Ctrl-C ends that.
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "opened\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := <-ended; websocket.CloseCode(err) != websocket.CodeNormal {
		t.Errorf("the server got %v", err)
	}
}
