package fasthttpadaptor

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice"
)

// A shownField is a field that the RequestCtx had when the handler first called
// Header, which shows it as key.
type shownField struct{ name, key, value string }

// showFields fills w.header with the fields of h that were set. Those that describe
// the body are left out: they follow from what the handler writes.
func (w *responseWriter) showFields(h *sluice.ResponseHeader) {
	h.SetNoDefaultContentType(true)
	for name, value := range h.All() {
		key := http.CanonicalHeaderKey(string(name))
		switch key {
		case "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		case "Server":
			if !h.IsSet(key) {
				continue
			}
		}
		f := shownField{string(name), key, string(value)}
		w.shown = append(w.shown, f)
		w.header[key] = append(w.header[key], f.value)
	}
}

// isAsShown reports whether the handler has left the fields named key as they were.
func (w *responseWriter) isAsShown(key string) bool {
	values, n := w.header[key], 0
	for _, f := range w.shown {
		if f.key != key {
			continue
		}
		if n == len(values) || values[n] != f.value {
			return false
		}
		n++
	}
	return n > 0 && n == len(values)
}

// remove removes the fields named key, in the spelling that they were shown in, too.
func (w *responseWriter) remove(h *sluice.ResponseHeader, key string) {
	for _, f := range w.shown {
		if f.key == key {
			h.Del(f.name)
		}
	}
	w.shown = slices.DeleteFunc(w.shown, func(f shownField) bool { return f.key == key })
	h.Del(key)
}

// copyFields makes the fields of the head those of the handler. Fields that it has
// not changed stay as they are spelt, where they are.
func (w *responseWriter) copyFields(h *sluice.ResponseHeader) {
	if w.hasTrailers {
		w.announce(h)
	}
	for i := 0; i < len(w.shown); {
		if key := w.shown[i].key; !w.isAsShown(key) {
			w.remove(h, key)
		} else {
			i++
		}
	}
	for key, values := range w.header {
		if strings.HasPrefix(key, http.TrailerPrefix) || slices.Contains(w.trailers, key) || w.isAsShown(key) {
			continue
		}
		switch key {
		case "Trailer", "Transfer-Encoding":
		case "Content-Length":
			w.setLength(h, values)
		case "Date":
			h.SetDate(strings.Join(values, ", "))
		default:
			h.Del(key)
			w.add(h, key, values)
		}
	}
}

// add adds the fields named key, without the blanks around their values. Of some names the
// header holds one field: a list, or the first value, which is the one that counts.
func (w *responseWriter) add(h *sluice.ResponseHeader, key string, values []string) {
	switch {
	case len(values) == 0:
		return
	case key == "Connection", key == "Content-Encoding":
		values = []string{strings.Join(values, ", ")}
	case key == "Content-Type", key == "Server":
		values = values[:1]
	}
	for _, value := range values {
		h.Add(key, textproto.TrimString(value))
	}
}

// setLength stores the length that the handler has set. It is not sent if the handler
// has asked for chunks.
func (w *responseWriter) setLength(h *sluice.ResponseHeader, values []string) {
	if n, ok := parseLength(values); ok {
		w.length = n
		if w.isChunked = w.asksForChunks(); !w.isChunked {
			h.SetContentLength(int(n))
		}
	}
}

// asksForChunks reports whether the handler has set a Transfer-Encoding other than
// identity. HTTP/2 has none (RFC 9113 section 8.2.2).
func (w *responseWriter) asksForChunks() bool {
	coding := w.header.Get("Transfer-Encoding")
	return coding != "" && coding != "identity" && w.ctx.ProtoMajor() == 1 && w.ctx.Request.Header.IsHTTP11()
}

// parseLength returns the value of Content-Length if it is a length.
func parseLength(values []string) (n int64, ok bool) {
	if len(values) == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
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

// mayHaveTrailers reports whether a trailer section can be sent. In HTTP/1.1, only a
// chunked body has one (RFC 9112 section 7.1.2).
func (w *responseWriter) mayHaveTrailers() bool {
	if w.isHead || !w.bodyAllowed() || !w.ctx.Request.Header.IsHTTP11() {
		return false
	}
	if w.ctx.ProtoMajor() > 1 {
		return true
	}
	if _, ok := parseLength(w.header["Content-Length"]); ok {
		return w.asksForChunks()
	}
	return w.header.Get("Transfer-Encoding") != "identity"
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
