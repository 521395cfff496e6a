package sluice

import (
	"time"

	"github.com/sluicehttp/sluice/internal/message"
)

// AppendHTTPDate appends date as an HTTP date, for example
// "Tue, 10 Nov 2009 23:00:00 GMT" (RFC 9110 section 5.6.7).
func AppendHTTPDate(dst []byte, date time.Time) []byte { return message.AppendDate(dst, date) }

// ParseHTTPDate parses an HTTP date in the preferred form or in one of the two
// obsolete forms (RFC 9110 section 5.6.7). The location of the result is GMT, or
// UTC for the form of asctime, which names none. In the location GMT,
// Format(time.RFC1123) formats the result as an HTTP date. The name of the
// weekday is not checked against the date. The text of the error does not
// depend on date.
func ParseHTTPDate(date []byte) (time.Time, error) { return message.ParseDate(date) }
