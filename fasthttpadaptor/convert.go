package fasthttpadaptor

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicehttp/sluice"
)

// ConvertNetHTTPRequestToFastHTTPRequest makes fastReq the request httpReq.
// httpReq may be a request for a client or one that a server received. The
// latter has no host in its URL; the host is then taken from httpReq.Host.
//
// The body is not read. It becomes the body stream of fastReq, which closes it
// when fastReq is written, reset or released. Trailer fields are copied when the
// body was read to the end.
func ConvertNetHTTPRequestToFastHTTPRequest(httpReq *http.Request, fastReq *sluice.Request) {
	fastReq.Reset()
	h := &fastReq.Header
	h.SetNoDefaultContentType(true)
	if httpReq.Method != "" {
		h.SetMethod(httpReq.Method)
	}
	if u := httpReq.URL; u != nil {
		fastReq.SetRequestURI(targetOf(u))
	}
	for key, values := range httpReq.Header {
		switch key {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue // httpReq has these outside of its Header
		case "Connection":
			h.Set(key, strings.Join(values, ", "))
			continue
		}
		for _, value := range values {
			h.Add(key, value)
		}
	}
	if httpReq.Host != "" {
		h.SetHost(httpReq.Host)
		fastReq.UseHostHeader = httpReq.URL != nil && httpReq.URL.Host != "" && httpReq.URL.Host != httpReq.Host
	}
	if httpReq.URL != nil && httpReq.URL.Host != "" {
		// URI parses the target, which is then written in origin-form. The
		// path must stay verbatim.
		fastReq.URI().DisablePathNormalizing = true
	}
	if httpReq.Close {
		fastReq.SetConnectionClose()
	}
	setBody(httpReq, fastReq)
}

// targetOf returns the target for a URL: a whole URI if it has scheme and host.
func targetOf(u *url.URL) string {
	if u.Host == "" || u.Scheme == "" {
		return u.RequestURI()
	}
	whole := *u
	whole.Fragment, whole.RawFragment = "", ""
	return whole.String()
}

// setBody makes the body of httpReq the body stream of fastReq.
func setBody(httpReq *http.Request, fastReq *sluice.Request) {
	if httpReq.Body == nil || httpReq.Body == http.NoBody {
		return
	}
	length := httpReq.ContentLength
	if length <= 0 || int64(int(length)) != length { // 0 with a body: unknown
		length = -1
	}
	for name := range httpReq.Trailer {
		_ = fastReq.Header.AddTrailer(name) // forbidden ones are left out
	}
	fastReq.SetBodyStream(&convertedBody{request: httpReq, header: &fastReq.Header}, int(length))
}

// convertedBody is the body stream of a converted request.
type convertedBody struct {
	request  *http.Request
	header   *sluice.RequestHeader
	atEnd    bool
	trailers []byte // the section; empty before the end
}

// Read implements io.Reader.
func (b *convertedBody) Read(p []byte) (int, error) {
	n, err := b.request.Body.Read(p)
	if err == io.EOF && !b.atEnd {
		b.atEnd = true
		var section sluice.ResponseHeader
		for name, values := range b.request.Trailer {
			addTrailer(&section, name, values)
		}
		b.trailers = section.TrailerHeader()
		b.ReadTrailers(b.header)
	}
	return n, err
}

// ReadTrailers adds the trailer fields, which are known at the end, to h. A client of HTTP/2
// calls it, which has a header of its own then.
func (b *convertedBody) ReadTrailers(h *sluice.RequestHeader) { readTrailers(h, b.trailers) }

// Close implements io.Closer.
func (b *convertedBody) Close() error { return b.request.Body.Close() }
