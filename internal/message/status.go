package message

import (
	"strconv"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// unknownReason is the phrase of codes without one in reasons.
const unknownReason = "Unknown Status Code"

// Reason returns the usual reason phrase of a status code.
func Reason(code int) string {
	if uint(code) < uint(len(reasons)) && reasons[code] != "" {
		return reasons[code]
	}
	return unknownReason
}

// BodyForbidden reports whether a response with that status has no body, whatever
// its head announces (RFC 9112 section 6.3).
func BodyForbidden(status int) bool {
	return status < 200 && status >= 100 || status == StatusNoContent || status == StatusNotModified
}

// statusLines holds the whole status lines by code. It is never changed.
var statusLines = func() (lines [len(reasons)]string) {
	for code, reason := range reasons {
		if reason != "" {
			lines[code] = "HTTP/1.1 " + strconv.Itoa(code) + " " + reason + "\r\n"
		}
	}
	return lines
}()

// isStatusCode reports whether a status line may have the code: three digits, at
// least 100 (RFC 9110 section 15).
func isStatusCode(code int) bool { return 100 <= code && code <= 999 }

// statusLine returns the status line of code, with the usual reason phrase and
// the line end. It does not allocate for codes with a constant. For a code that
// a status line must not have, it returns the line of 500: a mistake of a
// handler must not produce a message that clients misread (RFC 9112 section 4).
func statusLine(code int) string {
	if uint(code) < uint(len(statusLines)) && statusLines[code] != "" {
		return statusLines[code]
	}
	if !isStatusCode(code) {
		return statusLines[StatusInternalServerError]
	}
	return string(appendStatusLine(nil, code, unknownReason))
}

// appendStatusLine appends the status line of code with the given reason phrase.
// Control characters in the phrase become spaces. It treats invalid codes like
// statusLine.
func appendStatusLine(dst []byte, code int, reason string) []byte {
	if !isStatusCode(code) {
		return append(dst, statusLines[StatusInternalServerError]...)
	}
	dst = append(dst, "HTTP/1.1 "...)
	dst = ascii.AppendUint(dst, uint64(code))
	dst = append(dst, ' ')
	dst = ascii.AppendFieldText(dst, reason)
	return append(dst, "\r\n"...)
}
