package sse

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

// A Reader reads the events of a stream, as a client does. Make it with NewReader.
type Reader struct {
	in      *bufio.Reader
	lastID  string
	retry   time.Duration
	line    []byte
	data    []byte
	isBegun bool // a byte order mark is not expected any more
	skipsLF bool // the last line has ended with CR: an LF belongs to it
}

// NewReader returns a Reader of a response's body, which has the Content-Type
// text/event-stream.
func NewReader(body io.Reader) *Reader { return &Reader{in: bufio.NewReader(body)} }

// LastID returns the last ID that the stream has set, also without an event: send it as
// Last-Event-ID with the next request.
func (r *Reader) LastID() string { return r.lastID }

// Retry returns how long the stream wants its client to wait before it connects again; 0:
// it has not said.
func (r *Reader) Retry() time.Duration { return r.retry }

// Next waits for the next event. Its Data is valid until the next call. The error is io.EOF
// at the end of the stream, also in the middle of an event; ErrTooLarge for an event of more
// than MaxEvent bytes; or that of the body.
func (r *Reader) Next() (Event, error) {
	e := Event{}
	r.data = r.data[:0]
	hasData := false
	for {
		line, err := r.readLine()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if hasData {
				e.ID, e.Data = r.lastID, r.data[:len(r.data)-1]
				return e, nil
			}
			e.Name = ""
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			hasData = true
			r.data = append(append(r.data, value...), '\n')
		case "event":
			e.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				r.lastID = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.retry = time.Duration(ms) * time.Millisecond
			}
		}
		if len(r.data)+len(e.Name) > MaxEvent+1 {
			return Event{}, ErrTooLarge
		}
	}
}

// readLine returns the next line without its end: LF, CR or CRLF.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
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
			if len(r.line) > 2*MaxEvent {
				return nil, ErrTooLarge
			}
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
}
