package fasthttpadaptor

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicehttp/sluice"
)

// ConvertNetHTTPRequestToFastHTTPRequest makes fastReq the request httpReq. Both
// requests of clients and those that a server has received will do; the latter
// have no host in their URL, and get it from Host.
//
// The body is not read but becomes the body stream, which is closed when
// fastReq is written, reset or released. Trailer fields are taken over when it
// was read.
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
			continue // fields of httpReq say the same
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
		// Parsed, it is written as path and query, and the path as it is.
		fastReq.URI().DisablePathNormalizing = true
	}
	if httpReq.Close {
		fastReq.SetConnectionClose()
	}
	setBody(httpReq, fastReq)
}

// targetOf returns the target for a URL: a whole URI if there is a host.
func targetOf(u *url.URL) string {
	if u.Host == "" || u.Scheme == "" {
		return u.RequestURI()
	}
	whole := *u
	whole.Fragment, whole.RawFragment = "", ""
	return whole.String()
}

// setBody makes httpReq's body that of fastReq.
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
	fastReq.SetBodyStream(&convertedBody{httpReq, &fastReq.Header, false}, int(length))
}

// convertedBody is the body stream of a converted request.
type convertedBody struct {
	request *http.Request
	header  *sluice.RequestHeader
	atEnd   bool
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
		readTrailers(b.header, section.TrailerHeader())
	}
	return n, err
}

// Close implements io.Closer.
func (b *convertedBody) Close() error { return b.request.Body.Close() }
