//go:build linux

package member

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/tcp"
)

// maxPending is how many bytes of requests wait on one connection: a publisher has those
// of all streams of a server.
const maxPending = 64 << 20

// A publisher is the connection to a server on which a client asks for events: one for
// each server, the first that is open. It is the connection's state.
type publisher struct {
	*tcp.Sender
	client int // its index, for topics
}

// A trigger is the sender of a stream of server-sent events, which only receives: it has
// the server publish an event to the stream's topic. Before the stream has begun, it is the
// connection's state.
type trigger struct {
	publisher *publisher
	number    int32       // of the stream
	isOver    atomic.Bool // the stream has ended: the event would be lost
}

// startStream asks for a stream on a new connection.
func (c *client) startStream(conn *tcp.Conn) error {
	addr := conn.RemoteAddr().String()
	c.mu.Lock()
	p := c.publishers[addr]
	if p == nil {
		p = &publisher{Sender: conn.Sender(), client: c.hello.Index}
		c.publishers[addr] = p
		c.mu.Unlock()
		conn.SetState(p)
		<-c.upgrades
		return nil
	}
	c.streams++
	t := &trigger{publisher: p, number: c.streams}
	c.mu.Unlock()
	conn.SetState(t)
	_, err := conn.Write(t.appendRequest(conn.AvailableBuffer(), "GET"))
	return err
}

// appendRequest appends a request for the stream's topic.
func (t *trigger) appendRequest(dst []byte, method string) []byte {
	dst = append(append(dst, method...), " /"...)
	dst = append(strconv.AppendInt(dst, int64(t.publisher.client), 10), '-')
	dst = strconv.AppendInt(dst, int64(t.number), 10)
	dst = append(dst, " HTTP/1.1\r\nHost: lab\r\n"...)
	if method == "POST" {
		dst = append(dst, "Content-Length: 0\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// TrySend implements sender. It asks for an event, whatever message is.
func (t *trigger) TrySend([]byte) error {
	if t.isOver.Load() {
		return errStreamEnd
	}
	return t.publisher.Sender.TrySend(t.appendRequest(make([]byte, 0, 80), "POST"))
}

// handleSSE takes an event, or what comes before.
func (c *client) handleSSE(conn *tcp.Conn, in []byte) (int, error) {
	switch state := conn.State().(type) {
	case *publisher:
		return publishedSize(in)
	case *trigger:
		return c.streamBegins(conn, state, in)
	}
	text, size, err := parseChunk(in)
	if err != nil || size == 0 {
		return 0, err
	}
	if is, err := c.events.isAnswer(text); err != nil || !is {
		return size, err
	}
	return size, c.answered(conn)
}

// publishedSize returns how long the answer to POST is that in begins with; 0: it is not
// complete.
func publishedSize(in []byte) (int, error) {
	end := bytes.Index(in, endOfHead)
	switch {
	case end < 0:
		return 0, nil
	case !bytes.HasPrefix(in, statusNoContent):
		return 0, fmt.Errorf("the server does not publish: %.200q", in[:end])
	}
	return end + len(endOfHead), nil
}

// streamBegins takes the head of a stream and the position that follows at once.
func (c *client) streamBegins(conn *tcp.Conn, t *trigger, in []byte) (int, error) {
	end := bytes.Index(in, endOfHead)
	if end < 0 {
		return 0, nil
	}
	head := in[:end+2]
	if !bytes.HasPrefix(head, statusOK) || string(fieldOf(head, "Content-Type")) != "text/event-stream" ||
		string(fieldOf(head, "Transfer-Encoding")) != "chunked" {
		return 0, fmt.Errorf("the server does not answer with a stream: %.200q", head)
	}
	end += len(endOfHead)
	text, size, err := parseChunk(in[end:])
	if err != nil || size == 0 {
		return 0, err
	}
	if is, err := c.events.isAnswer(text); err != nil || is {
		return 0, cmp.Or(err, errEarly)
	}
	c.joins(conn, t)
	<-c.upgrades
	return end + size, nil
}

// sizeBits bounds the size of an event, sizeDigits the digits before it.
const (
	sizeBits   = 12
	sizeDigits = (sizeBits + 3) / 4
)

var (
	errChunk     = errors.New("what the server sends is no chunk")
	errStreamEnd = errors.New("the server ends a stream")
	errEarly     = errors.New("a stream begins with an event")
	errTwoEvents = errors.New("a chunk has two events")
)

// parseChunk returns the text of the chunk that in begins with, and its size in in; 0: it is
// not complete. Our server writes each event as one chunk.
func parseChunk(in []byte) (text []byte, size int, err error) {
	digits, _, hasSize := bytes.Cut(in, []byte("\r\n"))
	if !hasSize && len(in) <= sizeDigits+1 {
		return nil, 0, nil
	}
	n, err := strconv.ParseUint(string(digits), 16, sizeBits)
	if err != nil {
		return nil, 0, errChunk
	}
	if n == 0 {
		return nil, 0, errStreamEnd
	}
	at := len(digits) + 2
	if size = at + int(n) + 2; len(in) < size {
		return nil, 0, nil
	}
	if string(in[size-2:size]) != "\r\n" {
		return nil, 0, errChunk
	}
	return in[at : size-2], size, nil
}

// An eventReader reads the events of all streams, one chunk after the other.
type eventReader struct {
	mu     sync.Mutex
	text   bytes.Reader
	events *sse.Reader // of text
}

func newEventReader() *eventReader {
	r := &eventReader{}
	r.events = sse.NewReader(&r.text)
	return r
}

// isAnswer reports whether the text of a chunk is the event that was asked for. Otherwise, it
// has no event.
func (r *eventReader) isAnswer(text []byte) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.Reset(text)
	e, err := r.events.Next()
	switch {
	case err == io.EOF:
		if !bytes.HasSuffix(text, []byte("\n\n")) { // the rest of an event would belong to another stream
			r.events = sse.NewReader(&r.text)
		}
		return false, nil
	case err != nil:
		return false, err
	case !bytes.Equal(e.Data, answerData):
		return false, fmt.Errorf("an event with the data %.40q was not asked for", e.Data)
	}
	if _, err := r.events.Next(); err != io.EOF {
		return false, errTwoEvents
	}
	return true, nil
}
