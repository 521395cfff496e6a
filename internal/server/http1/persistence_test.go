package http1

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
)

// TestPersistence: whether a connection goes on after a response, what that says, and how it ends
// its content (RFC 9112 sections 6.3 and 9.3).
func TestPersistence(t *testing.T) {
	const (
		last    = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
		old     = "GET / HTTP/1.0\r\n\r\n"
		oldKeep = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
		post    = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"
	)
	unknown := func(h *testHost) { h.form.Length = -1 }
	hijack := func(h *testHost) { h.outcome, h.form.Next = server.OutcomeHijack, message.UseHijack }
	closing := func(h *testHost) { h.cfg.Closing.Store(true) }
	limits := func(h *testHost) { h.cfg.KeepAlive, h.cfg.MaxRequests, h.cfg.MaxLife = false, 1, 1 }
	stream := func(h *testHost) { unread(h); h.form.IsStream = true }
	type sets = []func(h *testHost)
	for name, test := range map[string]struct {
		set  sets
		in   string
		says string // in Connection
		ends string // names what ends the content
		next engine.Next
	}{
		"HTTP/1.1":                  {nil, get, "", "Content-Length: 0", engine.Read},
		"unknown length":            {sets{unknown}, get, "", "Transfer-Encoding: chunked", engine.Read},
		"the client's last":         {nil, last, "close", "Content-Length: 0", engine.CloseQuiet},
		"the same, unknown length":  {sets{unknown}, last, "close", "Transfer-Encoding: chunked", engine.CloseQuiet},
		"HTTP/1.0":                  {nil, old, "close", "Content-Length: 0", engine.CloseQuiet},
		"HTTP/1.0 that persists":    {nil, oldKeep, "keep-alive", "Content-Length: 0", engine.Read},
		"such of unknown length":    {sets{unknown}, oldKeep, "close", "", engine.Close},
		"an HTTP/1.0 response":      {sets{func(h *testHost) { h.response.IsHTTP10 = true }}, get, "keep-alive", "Content-Length: 0", engine.Read},
		"the handler's last":        {sets{func(h *testHost) { h.response.ConnectionClose = true }}, get, "close", "Content-Length: 0", engine.Close},
		"of no use":                 {sets{func(h *testHost) { h.form.Next = message.UseNone }}, get, "close", "Content-Length: 0", engine.Close},
		"of no use, in HTTP/1.0":    {sets{func(h *testHost) { h.form.Next = message.UseNone }}, oldKeep, "close", "Content-Length: 0", engine.Close},
		"no keep-alive":             {sets{func(h *testHost) { h.cfg.KeepAlive = false }}, get, "close", "Content-Length: 0", engine.Close},
		"the last of its number":    {sets{func(h *testHost) { h.cfg.MaxRequests = 1 }}, get, "close", "Content-Length: 0", engine.Close},
		"the last but one":          {sets{func(h *testHost) { h.cfg.MaxRequests = 2 }}, get, "", "Content-Length: 0", engine.Read},
		"a long life":               {sets{func(h *testHost) { h.cfg.MaxLife = 1 }}, get, "close", "Content-Length: 0", engine.Close},
		"a short one":               {sets{func(h *testHost) { h.cfg.MaxLife = 1<<63 - 1 }}, get, "", "Content-Length: 0", engine.Read},
		"closing":                   {sets{closing}, get, "close", "Content-Length: 0", engine.Close},
		"a hijack while closing":    {sets{hijack, closing}, get, "", "Content-Length: 0", engine.Detach},
		"one that closing forbids":  {sets{hijack, closing, func(h *testHost) { h.cfg.ClosesHijacked = true }}, get, "close", "Content-Length: 0", engine.Close},
		"one that it does not yet":  {sets{hijack, func(h *testHost) { h.cfg.ClosesHijacked = true }}, get, "", "Content-Length: 0", engine.Detach},
		"a hijack over limits":      {sets{hijack, limits}, get, "", "Content-Length: 0", engine.Detach},
		"an unread body":            {sets{unread}, post, "", "Content-Length: 0", engine.Read},
		"one that is too long":      {sets{unread}, strings.Replace(post, "9", "999999", 1), "close", "Content-Length: 0", engine.CloseLinger},
		"one that is awaited":       {sets{unread, func(h *testHost) { h.left = server.BodyAwaited }}, post, "close", "Content-Length: 0", engine.CloseLinger},
		"a malformed one":           {sets{unread, func(h *testHost) { h.unreadErr = errBroken }}, post, "close", "Content-Length: 0", engine.CloseLinger},
		"one that may be read yet":  {sets{stream}, strings.Replace(post, "9", "999999", 1), "", "Content-Length: 0", engine.CloseLinger},
		"a malformed one, streamed": {sets{stream, func(h *testHost) { h.unreadErr = errBroken }}, post, "close", "Content-Length: 0", engine.CloseLinger},
	} {
		h, c, p := open()
		p.facts.Opened = -int64(time.Second)
		for _, set := range test.set {
			set(h)
		}
		next := c.feed(p, test.in)
		says, ends := "", ""
		for line := range strings.SplitSeq(string(c.sent), "\r\n") {
			if value, ok := strings.CutPrefix(line, "Connection: "); ok {
				says = value
			}
			if strings.HasPrefix(line, "Content-Length: ") || strings.HasPrefix(line, "Transfer-Encoding: ") {
				ends += line
			}
		}
		if says != test.says || ends != test.ends || next != test.next {
			t.Errorf("%s: %v after %q", name, next, c.sent)
		}
		p.Closed(nil)
	}
}
