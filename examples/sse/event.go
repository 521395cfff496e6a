package main

import (
	"io"
	"strconv"
	"strings"
)

// An event is one message of a stream.
type event struct {
	id   uint64
	name string // what addEventListener listens to; "" is "message"
	data string
}

// write puts the event on the wire. Every line of the data has a field of its
// own; an empty line ends the event.
func (e event) write(w io.Writer) error {
	var text strings.Builder
	text.WriteString("id: " + strconv.FormatUint(e.id, 10) + "\n")
	if name := oneLine(e.name); name != "" {
		text.WriteString("event: " + name + "\n")
	}
	for line := range strings.SplitSeq(unixLines(e.data), "\n") {
		text.WriteString("data: " + line + "\n")
	}
	text.WriteString("\n")
	_, err := io.WriteString(w, text.String())
	return err
}

// unixLines makes every line end LF: a CR ends a line of the stream as well, so
// that a publisher could begin fields of its own with it.
func unixLines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

func oneLine(s string) string { return strings.ReplaceAll(unixLines(s), "\n", " ") }
