package sluice_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"github.com/sluicehttp/sluice/internal/server/http2/http2test"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/tcp"
	"github.com/sluicehttp/sluice/test/harness"
	"github.com/sluicehttp/sluice/websocket"
	xhttp2 "golang.org/x/net/http2"
)

var writeOrder = flag.Bool("write-order", false, "write testdata/order.txt, to be read before it is believed")

// An orderTest calls two methods that take over, end or stream a response, in every order.
type orderTest struct {
	*testing.T
	server   *sluice.Server
	rig      *harness.Rig
	file     string
	steps    []orderStep
	socket   *websocket.Endpoint
	hub      *sse.Hub
	raw      *tcp.Server
	returned chan string // which steps have failed

	opened, closed     atomic.Int32 // WebSockets, streams of events and connections of raw
	hijacked           atomic.Int32
	streams, streamEnd atomic.Int32 // body streams
}

// An orderStep is one method. What it sends has the text sends, or is the status.
type orderStep struct {
	name   string
	call   func(ctx *sluice.RequestCtx) error
	sends  string
	status int
	// replaces: what the step before has set for the response is not to be sent.
	replaces bool
	// isStream: the body is a stream, which what is written then drops, as in fasthttp.
	isStream bool
}

// orderInterim is what a handler may write to the connection before the response.
const orderInterim = "HTTP/1.1 102 Processing\r\n\r\n"

// orderStream is a body stream that counts.
type orderStream struct {
	io.Reader
	closed *atomic.Int32
}

func (s orderStream) Close() error { s.closed.Add(1); return nil }

// long: a list of methods
func (t *orderTest) allSteps() []orderStep {
	without := func(f func(ctx *sluice.RequestCtx)) func(ctx *sluice.RequestCtx) error {
		return func(ctx *sluice.RequestCtx) error { f(ctx); return nil }
	}
	text := func(_ int, err error) error { return err }
	adapted := func(f func(w http.ResponseWriter) error) func(ctx *sluice.RequestCtx) error {
		return func(ctx *sluice.RequestCtx) (err error) {
			fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, _ *http.Request) { err = f(w) })(ctx)
			return err
		}
	}
	return []orderStep{
		{name: "Flush", call: (*sluice.RequestCtx).Flush},
		{name: "EarlyHints", call: func(ctx *sluice.RequestCtx) error {
			ctx.Response.Header.Set("Link", "</a>")
			return ctx.EarlyHints()
		}},
		{name: "Upgrade", replaces: true, call: func(ctx *sluice.RequestCtx) error { return t.socket.Upgrade(ctx, nil) }},
		{name: "Accept", replaces: true, call: func(ctx *sluice.RequestCtx) error { return t.socket.Accept(ctx, t.loop) }},
		{name: "Serve", replaces: true, call: func(ctx *sluice.RequestCtx) error { return t.hub.Serve(ctx, "all") }},
		{name: "tcp", replaces: true, call: func(ctx *sluice.RequestCtx) error { return t.raw.Upgrade(ctx, "websocket") }},
		{name: "Hijack", call: without(func(ctx *sluice.RequestCtx) { ctx.Hijack(t.hijack) })},
		{name: "Conn", call: func(ctx *sluice.RequestCtx) error { return text(io.WriteString(ctx.Conn(), orderInterim)) }},
		{name: "SetConnectionClose", call: without((*sluice.RequestCtx).SetConnectionClose)},
		{name: "TimeoutError", call: without(func(ctx *sluice.RequestCtx) { ctx.TimeoutError("late") }), sends: "late", status: 408, replaces: true},
		{name: "SetBodyStream", sends: "stream", replaces: true, isStream: true, call: without(func(ctx *sluice.RequestCtx) {
			t.streams.Add(1)
			ctx.SetBodyStream(orderStream{strings.NewReader("stream"), &t.streamEnd}, -1)
		})},
		{name: "SetBodyStreamWriter", sends: "writer", replaces: true, isStream: true, call: without(func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) { _, _ = w.WriteString("writer") })
		})},
		{name: "SendFile", sends: "file", replaces: true, isStream: true, call: without(func(ctx *sluice.RequestCtx) { ctx.SendFile(t.file) })},
		{name: "Redirect", status: 302, call: without(func(ctx *sluice.RequestCtx) { ctx.Redirect("/b", 302) })},
		{name: "Error", sends: "error", status: 503, replaces: true, call: without(func(ctx *sluice.RequestCtx) { ctx.Error("error", 503) })},
		{name: "NotFound", sends: "404 Page", status: 404, replaces: true, call: without((*sluice.RequestCtx).NotFound)},
		{name: "NotModified", status: 304, replaces: true, call: without((*sluice.RequestCtx).NotModified)},
		{name: "Reset", replaces: true, call: without(func(ctx *sluice.RequestCtx) { ctx.Response.Reset() })},
		{name: "ResetBody", replaces: true, call: without((*sluice.RequestCtx).ResetBody)},
		{name: "SetBody", sends: "body", replaces: true, call: without(func(ctx *sluice.RequestCtx) { ctx.SetBodyString("body") })},
		{name: "Write", sends: "write", call: func(ctx *sluice.RequestCtx) error { return text(ctx.WriteString("write")) }},
		{name: "SetStatusCode", status: 201, call: without(func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(201) })},
		{name: "Header.Set", call: without(func(ctx *sluice.RequestCtx) { ctx.Response.Header.Set("X-Set", "1") })},
		{name: "adaptor", sends: "nethttp", call: adapted(func(w http.ResponseWriter) error { return text(io.WriteString(w, "nethttp")) })},
		{name: "adaptor.Flush", sends: "flushed", isStream: true, call: without(fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "flu")
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "shed")
		}))},
		{name: "adaptor.Hijack", replaces: true, call: adapted(func(w http.ResponseWriter) error {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
				go t.hijack(c)
			}
			return err
		})},
	}
}

// loop is that of Accept.
func (t *orderTest) loop(c *websocket.Conn) error {
	t.opened.Add(1)
	defer t.closed.Add(1)
	for {
		m, err := c.Read(c.Context())
		if err == nil {
			err = c.Write(c.Context(), m.Kind, m.Data)
		}
		if err != nil {
			return err
		}
	}
}

// hijack answers what the client sends.
func (t *orderTest) hijack(c net.Conn) {
	t.hijacked.Add(1)
	_ = c.SetDeadline(time.Now().Add(harness.Patience))
	if n, err := c.Read(make([]byte, 1<<10)); n > 0 && err == nil {
		_, _ = io.WriteString(c, "hijacked")
	}
	_ = c.Close()
}

func newOrderTest(t *testing.T, n harness.Network) *orderTest {
	test := &orderTest{T: t, returned: make(chan string, 1), file: filepath.Join(t.TempDir(), "a.txt")}
	if err := os.WriteFile(test.file, []byte("file"), 0o600); err != nil {
		t.Fatal(err)
	}
	test.socket = &websocket.Endpoint{
		OnOpen:    func(*websocket.Conn) error { test.opened.Add(1); return nil },
		OnMessage: func(c *websocket.Conn, m websocket.Message) error { return c.TryWrite(m.Kind, m.Data) },
		OnClose:   func(*websocket.Conn, error) { test.closed.Add(1) },
	}
	var err error
	test.hub, err = sse.New(sse.Options{
		Snapshot: func(*sluice.RequestCtx, []string) ([]sse.Event, error) {
			return []sse.Event{{Data: []byte("first")}}, nil
		},
		OnClose: func([]string, error) { test.closed.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	test.raw = &tcp.Server{
		OnOpen:  func(*tcp.Conn) error { test.opened.Add(1); return nil },
		Handler: func(c *tcp.Conn, in []byte) (int, error) { _, err := c.Write(in); return len(in), err },
		OnClose: func(*tcp.Conn, error) { test.closed.Add(1) },
	}
	test.steps = test.allSteps()
	test.server = &sluice.Server{Handler: test.handle}
	test.rig = harness.Serve(t, n, test.server)
	return test
}

// handle calls the two steps of the path.
func (t *orderTest) handle(ctx *sluice.RequestCtx) {
	var a, b int
	if n, _ := fmt.Sscanf(string(ctx.Path()), "/%d/%d", &a, &b); n != 2 {
		ctx.SetBodyString("after")
		return
	}
	failed := ""
	for i, step := range []int{a, b} {
		if err := t.steps[step].call(ctx); err != nil {
			failed += []string{"1", "2"}[i]
		}
	}
	t.returned <- failed
}

// An orderView is what a client saw.
type orderView struct {
	interim string
	status  int
	isSet   bool // the field of Header.Set came
	body    string
	end     string // kept, closed, torn, or who had the connection
	failed  string // which steps have failed
}

func (v orderView) String() string {
	s := fmt.Sprint(v.interim, v.status)
	if v.isSet {
		s += " set"
	}
	if v.body != "" {
		s += fmt.Sprintf(" %q", v.body)
	}
	return s + " " + v.end
}

const orderFrame = "\x81\x82\x00\x00\x00\x00hi" // a text for a WebSocket

// orderAfter is sent after a response of HTTP/1.1.
const orderAfter = "GET /after HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

// http1 makes a request that is a handshake, too.
func (t *orderTest) http1(path string) (v orderView) {
	c, err := t.rig.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer t.leave(c, &v)
	_ = c.SetDeadline(time.Now().Add(harness.Patience))
	_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	in := bufio.NewReader(c)
	var resp *http.Response
	for v.status = 100; v.status < 200 && v.status != 101; {
		if resp, err = http.ReadResponse(in, nil); err != nil {
			v.end = "no response"
			if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
				v.end = "garbled: " + err.Error()
			}
			return v
		}
		if v.status = resp.StatusCode; v.status == 102 || v.status == 103 {
			v.interim += fmt.Sprint(v.status, " ")
		}
	}
	v.isSet = resp.Header.Get("X-Set") != ""
	if resp.Header.Get("Sec-Websocket-Accept") != "" && v.status == 101 {
		_, _ = io.WriteString(c, orderFrame)
		v.body, v.end = orderEnd(in, "")
		return v
	}
	if v.body, v.end = orderBody(resp.Body, resp.Header.Get("Content-Type")); v.end != "" {
		return v
	}
	_, _ = io.WriteString(c, orderAfter)
	behind, end := orderEnd(in, orderAfter)
	if v.end = end; behind != "" {
		v.end = fmt.Sprintf("garbled: %q", behind)
	}
	return v
}

// leave closes c after the handler has returned, and waits for the end of the request, which
// writes the log.
func (t *orderTest) leave(c net.Conn, v *orderView) {
	v.failed = <-t.returned
	_ = c.Close()
	harness.Eventually(t.T, "the request ends", func() bool { return t.server.GetCurrentConcurrency() == 0 })
}

// orderBody reads a body: the end is torn, sse for one that goes on, or empty.
func orderBody(in io.Reader, kind string) (body, end string) {
	var all []byte
	for p := make([]byte, 1<<10); ; {
		n, err := in.Read(p)
		all = append(all, p[:n]...)
		switch {
		case err == io.EOF:
			return string(all), ""
		case err != nil:
			return string(all), "torn"
		case strings.HasPrefix(kind, "text/event-stream") && bytes.HasPrefix(all, []byte("data: first\n\nid: ")):
			return "", "sse"
		}
	}
}

// orderEnd tells who answers, and what came before.
func orderEnd(in io.Reader, sent string) (before, end string) {
	all := make([]byte, 0, 1<<10)
	for {
		n, err := in.Read(all[len(all):cap(all)])
		all = all[:len(all)+n]
		switch got := string(all); {
		case got == "\x81\x02hi":
			return "", "ws"
		case sent != "" && got == sent:
			return "", "tcp"
		case strings.HasSuffix(got, "hijacked"):
			return strings.TrimSuffix(strings.TrimPrefix(got, orderInterim), "hijacked"), "hijack"
		case strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") && strings.HasSuffix(got, "\r\n\r\nafter"):
			return "", "kept"
		case err != nil && n == 0 && got == "":
			return "", "closed"
		case err != nil:
			return "", fmt.Sprintf("garbled: %q", got)
		}
	}
}

// http2 makes a request, or opens a tunnel.
func (t *orderTest) http2(path string, connects bool) (v orderView) {
	raw, err := t.rig.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer t.leave(raw, &v)
	c := http2test.New(t, raw, 1<<20)
	fields := [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "h"}, {":path", path}}
	if connects {
		fields[0][1] = "CONNECT"
		fields = append(fields, [2]string{":protocol", "websocket"}, [2]string{"sec-websocket-version", "13"})
	}
	s := c.Open(!connects, fields...)
	status, err := s.Status()
	if err != nil {
		v.end = "no response"
		return v
	}
	_, _ = fmt.Sscan(status, &v.status)
	if connects && v.status/100 == 2 {
		_, _ = io.WriteString(s, orderFrame)
		v.body, v.end = orderEnd(s, orderFrame)
		return v
	}
	if v.body, v.end = orderBody(s, "text/event-stream"); v.end == "sse" {
		s.Reset(xhttp2.ErrCodeCancel)
	}
	if v.end != "" {
		return v
	}
	if t.closes(path) { // the frames that say so race with another request
		v.end = "complete"
		return v
	}
	after := c.Open(true, [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "h"}, {":path", "/after"}}...)
	v.end = "closed"
	if body, err := io.ReadAll(after); err == nil && string(body) == "after" {
		v.end = "kept"
	}
	return v
}

// closes reports whether a step of path is SetConnectionClose.
func (t *orderTest) closes(path string) bool {
	for part := range strings.SplitSeq(path[1:], "/") {
		if at, _ := strconv.Atoi(part); t.steps[at].name == "SetConnectionClose" {
			return true
		}
	}
	return false
}

// orderModes are ways to make the request.
var orderModes = []struct {
	name string
	view func(t *orderTest, path string) orderView
}{
	{"HTTP/1.1", (*orderTest).http1},
	{"HTTP/2", func(t *orderTest, path string) orderView { return t.http2(path, false) }},
	{"CONNECT", func(t *orderTest, path string) orderView { return t.http2(path, true) }},
}

// outcome runs one pair.
func (t *orderTest) outcome(mode, a, b int) string {
	sluice.ForgetMisuse(t.server)
	t.rig.Log.Reset()
	v := orderModes[mode].view(t, fmt.Sprintf("/%d/%d", a, b))
	failed, logged := v.failed, t.rig.Log.String() != ""
	name := fmt.Sprintf("%s: %s, %s: %v, failed %q, logged %q", orderModes[mode].name, t.steps[a].name, t.steps[b].name, v, failed, t.rig.Log)
	isWhole := v.end != "torn" && v.end != "no response"
	if strings.Contains(v.end, "garbled") {
		t.Error(name)
	}
	first, second := &t.steps[a], &t.steps[b]
	isReplaced := v.status == 408 || v.status == 501 && mode > 0 // by TimeoutError, or because it is no tunnel
	if second.status != 0 && first.name == "adaptor.Hijack" {
		isReplaced = true // the handler of the connection answers
	}
	if !logged && isWhole && !isReplaced && !strings.Contains(failed, "2") {
		hasContent := v.status != 304 && v.status != 101 && v.end != "ws"
		if second.sends != "" && hasContent && !strings.Contains(v.body, second.sends) {
			t.Errorf("%s: what the second sends is lost", name)
		}
		if second.status != 0 && v.status != second.status {
			t.Errorf("%s: the status of the second is lost", name)
		}
		if first.sends != "" && hasContent && !second.replaces && !first.isStream && !strings.Contains(v.body, first.sends) && !strings.Contains(failed, "1") {
			t.Errorf("%s: what the first sends is lost", name)
		}
	}
	if first.name == "adaptor.Hijack" && second.name == "TimeoutError" && v.end == "hijack" {
		v.end = "closed" // TimeoutError ends the connection, but its new owner may be faster
	}
	text := v.String()
	if first.name == "adaptor.Hijack" && second.name == "Conn" && failed == "2" {
		failed = "" // the new owner may have closed the connection already
	}
	if failed != "" {
		text += ", error of " + failed
	}
	if logged {
		text += ", log"
	}
	return text
}

// TestOrder: every two of the methods that take over, end or stream a response, in each order.
// testdata/order.txt says what happens.
func TestOrder(t *testing.T) {
	want, err := os.ReadFile("testdata/order.txt")
	if err != nil && !*writeOrder {
		t.Fatal(err)
	}
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			test, got := newOrderTest(t, n), strings.Builder{}
			for a := range test.steps {
				for b := range test.steps {
					fmt.Fprintf(&got, "%s, %s", test.steps[a].name, test.steps[b].name)
					for mode := range orderModes {
						fmt.Fprint(&got, " | ", test.outcome(mode, a, b))
					}
					got.WriteString("\n")
				}
			}
			if *writeOrder {
				if err := os.WriteFile("testdata/order.txt", []byte(got.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if got.String() != string(want) {
				lines, wants := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
				for i, line := range lines[:min(len(lines), len(wants))] {
					if line != wants[i] {
						t.Errorf("got  %s\nwant %s", line, wants[i])
					}
				}
			}
			// After TimeoutError, a body stream is the handler's.
			kept := int32(2 * len(orderModes))
			harness.Eventually(t, "all that was opened is closed", func() bool {
				return test.opened.Load()+int32(strings.Count(got.String(), " sse")) == test.closed.Load() && test.streams.Load() == test.streamEnd.Load()+kept
			})
			// TimeoutError ends two connections that the adaptor has hijacked.
			if hijacked := strings.Count(got.String(), " hijack") + 2; int(test.hijacked.Load()) != hijacked {
				t.Errorf("%d of %d connections were hijacked", test.hijacked.Load(), hijacked)
			}
		})
	}
}

// TestOrderWhileClosing: a connection that ends with its next response is not promised to another
// protocol.
func TestOrderWhileClosing(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			test := newOrderTest(t, n)
			test.server.Control().CloseOnNextResponse()
			for at, step := range test.steps {
				if step.name != "Upgrade" && step.name != "tcp" {
					continue
				}
				v := test.http1(fmt.Sprintf("/%d/%d", at, at)) // the second one is an error
				if v.String() != `503 "the server shuts down" closed` {
					t.Errorf("%s: %v", step.name, v)
				}
			}
		})
	}
}
