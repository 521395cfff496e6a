//go:build linux

package member

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

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
	data, size, err := parseEvent(in)
	switch {
	case err != nil || size == 0:
		return 0, err
	case !bytes.Equal(data, answerData):
		return 0, fmt.Errorf("an event with the data %.40q was not asked for", data)
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
	data, size, err := parseEvent(in[end:])
	switch {
	case err != nil || size == 0:
		return 0, err
	case data != nil:
		return 0, fmt.Errorf("a stream begins with the event %.40q", data)
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
	errEvent     = errors.New("a chunk is not an event with an ID and one line of data at most")
)

// parseEvent returns the data of the event in the chunk that in begins with, nil if it has
// none, and the size of the chunk in in; 0: it is not complete. Our server writes each event
// as one chunk, with its ID first: anything else is an error.
func parseEvent(in []byte) (data []byte, size int, err error) {
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
	text := in[at : size-2]
	if string(in[size-2:size]) != "\r\n" {
		return nil, 0, errChunk
	}
	id, rest, _ := bytes.Cut(text, []byte("\n"))
	if len(id) == len("id: ") || !bytes.HasPrefix(id, []byte("id: ")) {
		return nil, 0, errEvent
	}
	if string(rest) == "\n" {
		return nil, size, nil
	}
	data, hasData := bytes.CutPrefix(rest, []byte("data: "))
	data, isEvent := bytes.CutSuffix(data, []byte("\n\n"))
	if !hasData || !isEvent || bytes.IndexByte(data, '\n') >= 0 {
		return nil, 0, errEvent
	}
	return data, size, nil
}
