package main

import (
	"io"
	"strconv"
	"strings"
)

// An event is one message of a stream.
type event struct {
	id   uint64
	name string // the name for addEventListener; "" is "message"
	data string
}

// write writes the event in the wire format: a field for each line of the data, and
// an empty line at the end.
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

// unixLines converts all line ends to LF. A CR also ends a line of the stream, so a
// publisher could otherwise insert fields.
func unixLines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

func oneLine(s string) string { return strings.ReplaceAll(unixLines(s), "\n", " ") }
