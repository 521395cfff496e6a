package sse

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

// A Reader reads the events of a stream, as a client does. Make it with NewReader:
// the zero value panics.
type Reader struct {
	in      *bufio.Reader
	lastID  string
	retry   time.Duration
	line    []byte  // as far as it has come
	event   pending // the next one, as far as it has come
	isBegun bool    // a byte order mark is not expected any more
	skipsLF bool    // the last line has ended with CR: an LF belongs to it
}

// A pending is an event that is not complete.
type pending struct {
	id      string // LastID after it
	name    string
	data    []byte // each line with an LF
	hasData bool
}

// NewReader returns a Reader of a response's body, which has the Content-Type
// text/event-stream.
func NewReader(body io.Reader) *Reader { return &Reader{in: bufio.NewReader(body)} }

// LastID returns the ID of the last event that Next has returned, or a later one that the
// stream has set without an event: send it as Last-Event-ID with the next request. The ID of
// an event that is not complete does not count.
func (r *Reader) LastID() string { return r.lastID }

// Retry returns how long the stream wants its client to wait before it connects again; 0:
// it has not said.
func (r *Reader) Retry() time.Duration { return r.retry }

// Next waits for the next event. Its Data is valid until the next call. The error is io.EOF
// at the end of the stream, also in the middle of an event; ErrTooLarge for an event of more
// than MaxEvent bytes, which is the end, too; or that of the body. If the body can be read on
// after its error, as after a time-out, the next call goes on where this one was.
func (r *Reader) Next() (Event, error) {
	e := &r.event
	for len(e.data)+len(e.name) <= MaxEvent+1 {
		line, err := r.readLine()
		if err != nil {
			return Event{}, err
		}
		if len(line) > 0 {
			r.take(line)
			r.line = r.line[:0]
			continue
		}
		whole := *e
		r.lastID = e.id
		e.name, e.data, e.hasData = "", e.data[:0], false
		if whole.hasData {
			return Event{ID: whole.id, Name: whole.name, Data: whole.data[:len(whole.data)-1]}, nil
		}
	}
	return Event{}, ErrTooLarge
}

// take adds a line to the event.
func (r *Reader) take(line []byte) {
	e := &r.event
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		e.hasData = true
		e.data = append(append(e.data, value...), '\n')
	case "event":
		e.name = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			e.id = string(value)
		}
	case "retry":
		if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
			r.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// readLine returns the next line without its end: LF, CR or CRLF. The caller empties r.line.
func (r *Reader) readLine() ([]byte, error) {
	for len(r.line) <= 2*MaxEvent {
		if _, err := r.in.Peek(1); err != nil {
			return nil, err
		}
		in, _ := r.in.Peek(r.in.Buffered())
		if r.skipsLF {
			r.skipsLF = false
			if in[0] == '\n' {
				_, _ = r.in.Discard(1)
				continue
			}
		}
		end := bytes.IndexAny(in, "\r\n")
		if end < 0 {
			r.line = append(r.line, in...)
			_, _ = r.in.Discard(len(in))
			continue
		}
		r.line = append(r.line, in[:end]...)
		r.skipsLF = in[end] == '\r'
		_, _ = r.in.Discard(end + 1)
		if !r.isBegun {
			r.isBegun = true
			r.line = bytes.TrimPrefix(r.line, []byte("\xef\xbb\xbf"))
		}
		return r.line, nil
	}
	return nil, ErrTooLarge
}
