package sse

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// MaxEvent is how many bytes the name and the data of a published event may have together.
const MaxEvent = 256 << 10

var (
	// ErrTooLarge is returned by Publish for an event that is larger than MaxEvent or than
	// Options.HistoryBytes, and by Reader.Next for one that is larger than MaxEvent.
	ErrTooLarge = errors.New("sluice: sse: the event is too large")
	// ErrName is returned by Publish for a name with a line break.
	ErrName = errors.New("sluice: sse: the name of the event has a line break")
)

// An Event is one message of a stream.
type Event struct {
	// ID is what the client sends as Last-Event-ID. Reader sets it. Published events get
	// theirs from the Hub, and those of Options.Snapshot have none.
	ID string
	// Name is the type for addEventListener; "": "message". It has no line breaks.
	Name string
	// Data is text in UTF-8. Every line break of it (LF, CR or CRLF) arrives as LF.
	Data []byte
}

// check reports whether e may be sent.
func (e *Event) check() error {
	switch {
	case len(e.Name)+len(e.Data) > MaxEvent:
		return ErrTooLarge
	case strings.ContainsAny(e.Name, "\r\n"):
		return ErrName
	}
	return nil
}

// appendText appends an event as lines, with an empty one at its end (WHATWG HTML section
// 9.2.5).
func appendText(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	for {
		end := bytes.IndexAny(data, "\r\n")
		line := data
		if end >= 0 {
			line = data[:end]
		}
		dst = append(append(append(dst, "data: "...), line...), '\n')
		if end < 0 {
			return append(dst, '\n')
		}
		if data[end] == '\r' && end+1 < len(data) && data[end+1] == '\n' {
			end++
		}
		data = data[end+1:]
	}
}

// appendRetry tells a client how long to wait before it connects again.
func appendRetry(dst []byte, after time.Duration) []byte {
	dst = strconv.AppendInt(append(dst, "retry: "...), after.Milliseconds(), 10)
	return append(dst, "\n\n"...)
}

// chunkOverhead is how many bytes a chunk has besides its data, at most.
const chunkOverhead = 2*8 + 4

// appendChunk appends text as a chunk (RFC 9112 section 7.1).
func appendChunk(dst, text []byte) []byte {
	dst = append(h1.AppendChunkHead(dst, len(text)), text...)
	return append(dst, "\r\n"...)
}

// lastChunk ends a chunked body without trailers.
const lastChunk = h1.LastChunk + "\r\n"
