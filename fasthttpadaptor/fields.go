package fasthttpadaptor

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicehttp/sluice"
)

// copyFields copies the handler's fields into the head. They replace those of
// the same name, but for cookies, which are added.
func (w *responseWriter) copyFields(h *sluice.ResponseHeader) {
	w.announce(h)
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

// setLength notes the length that the handler has told. One that is no number
// is left out.
func (w *responseWriter) setLength(h *sluice.ResponseHeader, values []string) {
	if len(values) == 0 {
		return
	}
	n, err := strconv.ParseInt(strings.TrimSpace(values[0]), 10, 64)
	if err != nil || n < 0 || int64(int(n)) != n {
		return
	}
	w.length = n
	h.SetContentLength(int(n))
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

// copyTrailers adds the values of the trailer fields: those that were announced,
// and those that have http.TrailerPrefix.
func (w *responseWriter) copyTrailers(h *sluice.ResponseHeader) {
	for _, name := range w.trailers {
		for _, value := range w.header[name] {
			h.Add(name, value)
		}
	}
	for key, values := range w.header {
		name, found := strings.CutPrefix(key, http.TrailerPrefix)
		if !found || h.AddTrailer(name) != nil {
			continue
		}
		for _, value := range values {
			h.Add(name, value)
		}
	}
}
