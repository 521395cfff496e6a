package fasthttpadaptor

import (
	"bufio"
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice"
)

// copyFields copies the handler's fields into the head. They replace fields of
// the same name, except cookies, which are added.
func (w *responseWriter) copyFields(h *sluice.ResponseHeader) {
	w.hasTrailers = w.mayHaveTrailers()
	if w.hasTrailers {
		w.announce(h)
	}
	for key, values := range w.header {
		if strings.HasPrefix(key, http.TrailerPrefix) || slices.Contains(w.trailers, key) {
			continue
		}
		switch key {
		case "Trailer", "Transfer-Encoding":
		case "Content-Length":
			w.setLength(h, values)
		case "Connection":
			h.Set(key, strings.Join(values, ", "))
		default:
			if key != "Set-Cookie" {
				h.Del(key)
			}
			for _, value := range values {
				h.Add(key, value)
			}
		}
	}
}

// setLength stores the length that the handler has set.
func (w *responseWriter) setLength(h *sluice.ResponseHeader, values []string) {
	if n, ok := parseLength(values); ok {
		w.length = n
		h.SetContentLength(int(n))
	}
}

// parseLength returns the value of Content-Length if it is a length.
func parseLength(values []string) (n int64, ok bool) {
	if len(values) == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(values[0]), 10, 64)
	return n, err == nil && n >= 0 && int64(int(n)) == n
}

// announce announces the trailer fields that Trailer lists.
func (w *responseWriter) announce(h *sluice.ResponseHeader) {
	for _, list := range w.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if name != "" && h.AddTrailer(name) == nil {
				w.trailers = append(w.trailers, name)
			}
		}
	}
}

// mayHaveTrailers tells whether a trailer section can be sent: only a chunked
// body has one (RFC 9112 section 7.1.2).
func (w *responseWriter) mayHaveTrailers() bool {
	if w.isHead || !w.bodyAllowed() || !w.ctx.Request.Header.IsHTTP11() {
		return false
	}
	if _, ok := parseLength(w.header["Content-Length"]); ok {
		return false
	}
	coding := w.header["Transfer-Encoding"]
	return len(coding) == 0 || !strings.EqualFold(strings.TrimSpace(coding[0]), "identity")
}

// copyTrailers copies the trailer fields into h: those that have
// http.TrailerPrefix, and those that were announced before the body began.
// Fields of the head with the same names stay.
func (w *responseWriter) copyTrailers(h *sluice.ResponseHeader) {
	if !w.hasTrailers {
		return
	}
	var section sluice.ResponseHeader
	for key, values := range w.header {
		if name, found := strings.CutPrefix(key, http.TrailerPrefix); found {
			addTrailer(&section, name, values)
		}
	}
	for _, name := range w.trailers {
		addTrailer(&section, name, w.header[name])
	}
	readTrailers(h, section.TrailerHeader())
}

// addTrailer adds fields to a section of trailer fields, unless they are
// forbidden there.
func addTrailer(section *sluice.ResponseHeader, name string, values []string) {
	if section.AddTrailer(name) != nil {
		return
	}
	for _, value := range values {
		section.Add(name, value)
	}
}

// readTrailers adds the fields of a trailer section to h. Unlike h's setters, it
// does not change fields of the head.
func readTrailers(h interface{ ReadTrailer(*bufio.Reader) error }, section []byte) {
	if len(section) > len("\r\n") {
		_ = h.ReadTrailer(bufio.NewReaderSize(bytes.NewReader(section), len(section))) // it is well-formed
	}
}
