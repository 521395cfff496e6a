// Package prefers finds out which kind of answer a client prefers: by the Accept of its
// request (RFC 9110 section 12.5.1).
package prefers

import (
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice"
)

// HTML reports whether the client prefers a page to text and JSON, as browsers do.
func HTML(h *sluice.RequestHeader) bool {
	w := weigh(h)
	return w.html > max(w.text, w.json)
}

// JSON reports whether the client prefers JSON to text and to a page.
func JSON(h *sluice.RequestHeader) bool {
	w := weigh(h)
	return w.json > max(w.text, w.html)
}

// weights are those of media types that an Accept names; 0 for others. A range of all types
// prefers none.
type weights struct{ html, json, text float64 }

func weigh(h *sluice.RequestHeader) (w weights) {
	for part := range strings.SplitSeq(string(h.Peek(sluice.HeaderAccept)), ",") {
		mediaType, parameters, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(mediaType)) {
		case "application/json":
			w.json = max(w.json, weight(parameters))
		case "text/html":
			w.html = max(w.html, weight(parameters))
		case "text/plain", "text/*":
			w.text = max(w.text, weight(parameters))
		}
	}
	return w
}

// weight returns the parameter q of an element of Accept; 1 if there is none, 0
// if it is not a number (RFC 9110 section 12.4.2).
func weight(parameters string) float64 {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0
			}
			return q
		}
	}
	return 1
}
