//go:build linux

package member

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

var (
	endOfHead       = []byte("\r\n\r\n")
	statusOK        = []byte("HTTP/1.1 200 ")
	statusNoContent = []byte("HTTP/1.1 204 ")
	contentLength   = []byte("\r\nContent-Length: ")
)

// responseSize returns how long the HTTP response is that in begins with; 0: its
// head is not complete.
func responseSize(in []byte) (int, error) {
	end := bytes.Index(in, endOfHead)
	if end < 0 {
		return 0, nil
	}
	head := in[:end+2]
	if !bytes.HasPrefix(head, statusOK) {
		return 0, fmt.Errorf("the server answers %.40q", head)
	}
	at := bytes.Index(head, contentLength)
	if at < 0 {
		return 0, fmt.Errorf("an answer has no Content-Length: %.200q", head)
	}
	digits := head[at+len(contentLength):]
	digits = digits[:bytes.IndexByte(digits, '\r')]
	n, err := strconv.Atoi(string(digits))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("an answer has the Content-Length %.20q", digits)
	}
	return end + len(endOfHead) + n, nil
}

// fieldOf returns the value of a field of a head, nil if it is not there.
func fieldOf(head []byte, name string) []byte {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		field, value, isField := bytes.Cut(line, []byte(":"))
		if isField && strings.EqualFold(string(field), name) {
			return bytes.TrimSpace(value)
		}
	}
	return nil
}
