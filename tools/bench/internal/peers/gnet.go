package peers

import (
	"bytes"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

// A gnetServer answers over gnet, which has no HTTP. It looks in the bytes for what the other
// handlers ask their libraries for, and checks nothing else.
type gnetServer struct {
	gnet.BuiltinEventEngine
	bodySize int
	answer   content
	start    atomic.Pointer[[]byte] // of a response's head, up to the value of Content-Length
	outputs  sync.Pool              // of *[]byte
}

func serveGnet(addr string, o Options, answer content) error {
	s := &gnetServer{bodySize: o.BodySize, answer: answer}
	s.outputs.New = func() any { return new([]byte) }
	s.OnTick()
	// With SO_REUSEPORT each loop accepts for itself, so one P has one thread.
	return gnet.Run(s, "tcp4://"+addr, gnet.WithReusePort(true), gnet.WithNumEventLoop(runtime.GOMAXPROCS(0)),
		gnet.WithTicker(true), gnet.WithLogLevel(logging.ErrorLevel))
}

// OnTick implements gnet.EventHandler. It makes the date.
func (s *gnetServer) OnTick() (time.Duration, gnet.Action) {
	start := []byte("HTTP/1.1 200 OK\r\nServer: gnet\r\nDate: " + time.Now().UTC().Format(http.TimeFormat) +
		"\r\nContent-Type: " + s.answer.contentType + "\r\nContent-Length: ")
	s.start.Store(&start)
	return time.Second, gnet.None
}

// OnTraffic implements gnet.EventHandler. It answers all requests that have arrived.
func (s *gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	in, err := c.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	output := s.outputs.Get().(*[]byte)
	defer s.outputs.Put(output)
	out, used, action := (*output)[:0], 0, gnet.None
	for action == gnet.None {
		r := parseGnet(in[used:])
		if r.size == 0 {
			break
		}
		used += r.size
		if out, action = s.respond(c, out, r); action == gnet.None && r.closes {
			action = gnet.Close
		}
	}
	if len(out) > 0 {
		if _, err := c.Write(out); err != nil {
			action = gnet.Close
		}
	}
	if _, err := c.Discard(used); err != nil {
		action = gnet.Close
	}
	*output = out
	return action
}

// sentAlone is the length of a body from which it is not copied to its head.
const sentAlone = 16 << 10

// respond appends the response to out, or sends both.
func (s *gnetServer) respond(c gnet.Conn, out []byte, r gnetRequest) ([]byte, gnet.Action) {
	if r.body != s.bodySize || !isGood(r.path, r.agent, r.page) {
		return append(out, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"...), gnet.Close
	}
	body := s.answer.body()
	out = append(out, *s.start.Load()...)
	out = strconv.AppendInt(out, int64(len(body)), 10)
	if r.closes {
		out = append(out, "\r\nConnection: close"...)
	}
	out = append(out, "\r\n\r\n"...)
	if len(body) < sentAlone {
		return append(out, body...), gnet.None
	}
	if _, err := c.Writev([][]byte{out, body}); err != nil {
		return out[:0], gnet.Close
	}
	return out[:0], gnet.None
}

// A gnetRequest is what the handler looks at.
type gnetRequest struct {
	path, page, agent []byte
	size              int // with its body; 0: it is not complete
	body              int
	closes            bool
}

// parseGnet reads the request at the beginning of in.
func parseGnet(in []byte) (r gnetRequest) {
	end := bytes.Index(in, []byte("\r\n\r\n"))
	if end < 0 {
		return r
	}
	line, fields, _ := bytes.Cut(in[:end+2], []byte("\r\n"))
	_, line, _ = bytes.Cut(line, []byte{' '})
	target, _, _ := bytes.Cut(line, []byte{' '})
	path, query, _ := bytes.Cut(target, []byte{'?'})
	r.path = path
	for len(query) > 0 {
		var argument []byte
		argument, query, _ = bytes.Cut(query, []byte{'&'})
		if value, found := bytes.CutPrefix(argument, []byte("page=")); found {
			r.page = value
		}
	}
	for len(fields) > 0 {
		line, fields, _ = bytes.Cut(fields, []byte("\r\n"))
		name, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("User-Agent")):
			r.agent = value
		case bytes.EqualFold(name, []byte("Connection")):
			r.closes = bytes.EqualFold(value, []byte("close"))
		case bytes.EqualFold(name, []byte("Content-Length")):
			r.body, _ = strconv.Atoi(string(value)) // of a client of ours
		}
	}
	if size := end + 4 + r.body; size <= len(in) {
		r.size = size
	}
	return r
}
