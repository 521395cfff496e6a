package fasthttpadaptor

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/body"
	"golang.org/x/net/http/httpguts"
)

// A Transport is an http.RoundTripper: an http.Client, and a library that takes one,
// sends its requests with a sluice.Client by it, on its connections. The zero value is
// ready to use. A Transport must not be copied. Its methods may be called concurrently.
//
//	client := &http.Client{Transport: &fasthttpadaptor.Transport{Client: sluiceClient}}
//
// The request's context ends it in each phase, and the reading of the response's body. Bodies
// are streams in both directions, with trailer fields. Functions of httptrace.ClientTrace in
// the context are called, except those about idle connections and single fields;
// Got1xxResponse is not called for the status 100. A body waits for the status 100 as sluice.Client.ExpectContinueTimeout says. What the client repeats by itself, it repeats here too, unless the body was read from.
//
// It asks for compressed responses and decodes them as sluice.Client.DecodeResponseBody says, not
// only those in gzip. As with http.Transport, Response.Uncompressed tells.
//
// It differs from http.Transport: the User-Agent of a request without one is the client's, and
// it fails with ErrSwitched if the server switches protocols.
type Transport struct {
	// Client sends the requests; nil is one with default settings, which speaks HTTP/1.1.
	// Its StreamResponseBody is of no account.
	Client *sluice.Client

	// DisableCompression leaves bodies as they were sent, and does not ask for compression, unless
	// the Client has DecodeResponseBody. It is that of http.Transport.
	DisableCompression bool

	own sluice.Client
}

var _ http.RoundTripper = (*Transport)(nil)

// ErrSwitched is the error of a request whose response has the status 101.
var ErrSwitched = errors.New("sluice: the server has switched to another protocol")

// RoundTrip implements http.RoundTripper. If the context has ended, errors.Is finds its
// cause in the error. Other errors are those of Client.DoContext.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := checkOutgoing(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	if r.URL.User != nil { // http.Client has made a field of it
		u := *r.URL
		u.User = nil
		r2 := *r
		r2.URL = &u
		r = &r2
	}
	client := t.client()
	req, resp := new(sluice.Request), new(sluice.Response)
	ConvertNetHTTPRequestToFastHTTPRequest(r, req)
	defer req.CloseBodyStream()
	resp.StreamBody, resp.DecodeBody = true, !t.DisableCompression
	var refused error
	resp.OnInterim = interim(r.Context(), &refused)
	var state *tls.ConnectionState
	if err := client.DoContext(traced(r, client.Trace, &state), req, resp); err != nil {
		return nil, cmp.Or(refused, err)
	}
	if refused != nil {
		_ = resp.CloseBodyStream()
		return nil, refused
	}
	if resp.StatusCode() == http.StatusSwitchingProtocols {
		_ = resp.CloseBodyStream()
		return nil, ErrSwitched
	}
	out := convertResponse(resp, r)
	out.TLS = state
	return out, nil
}

// CloseIdleConnections closes the client's idle connections. http.Client.CloseIdleConnections calls it.
func (t *Transport) CloseIdleConnections() { t.client().CloseIdleConnections() }

func (t *Transport) client() *sluice.Client {
	if t.Client == nil {
		return &t.own
	}
	return t.Client
}

// checkOutgoing finds what would be sent in another form than it has.
func checkOutgoing(r *http.Request) error {
	switch {
	case r.URL == nil:
		return errors.New("sluice: the request has no URL")
	case r.URL.Scheme != "http" && r.URL.Scheme != "https":
		return fmt.Errorf("sluice: the scheme of a URL is http or https, not %q", r.URL.Scheme)
	case r.URL.Host == "":
		return errors.New("sluice: the URL has no host")
	case r.Method != "" && !httpguts.ValidHeaderFieldName(r.Method): // both are tokens
		return fmt.Errorf("sluice: %q is no method", r.Method)
	}
	for _, fields := range []http.Header{r.Header, r.Trailer} {
		for name, values := range fields {
			if !httpguts.ValidHeaderFieldName(name) {
				return fmt.Errorf("sluice: %q is no name of a field", name)
			}
			for _, value := range values {
				if !httpguts.ValidHeaderFieldValue(value) {
					return fmt.Errorf("sluice: the value of field %s has a control character", name) // it may be secret
				}
			}
		}
	}
	return nil
}

// convertResponse makes an http.Response of resp, which owns its memory from now on.
func convertResponse(resp *sluice.Response, r *http.Request) *http.Response {
	h := &resp.Header
	h.SetNoDefaultContentType(true)
	out := &http.Response{
		StatusCode:    h.StatusCode(),
		Proto:         string(h.Protocol()),
		Header:        make(http.Header, h.Len()),
		ContentLength: max(int64(h.ContentLength()), -1),
		Close:         h.ConnectionClose(),
		Request:       r,
	}
	reason := string(h.StatusMessage())
	if reason == "" { // as over HTTP/2
		reason = http.StatusText(out.StatusCode)
	}
	out.Status = strconv.Itoa(out.StatusCode) + " " + reason
	out.ProtoMajor, out.ProtoMinor, _ = http.ParseHTTPVersion(out.Proto)
	isChunked := h.ContentLength() == -1 && out.ProtoMajor == 1
	for name, value := range h.All() {
		switch key := http.CanonicalHeaderKey(string(name)); {
		case key == "Transfer-Encoding", key == "Connection" && out.Close: // as net/http
		case key == "Trailer" && (isChunked || out.ProtoMajor > 1):
			announceTrailers(out, value)
		case key == "Content-Length":
			if h.ContentLength() >= 0 {
				out.Header[key] = []string{string(value)}
			}
		default:
			out.Header[key] = append(out.Header[key], string(value))
		}
	}
	if isChunked {
		out.TransferEncoding = []string{"chunked"}
	}
	stream := resp.BodyStream()
	if stream == nil && len(resp.Body()) > 0 { // the client's own Transport has kept it in memory
		stream = bytes.NewReader(resp.Body())
	}
	if stream == nil {
		out.Body = http.NoBody
		if r.Method != http.MethodHead {
			out.ContentLength = 0
		}
		return out
	}
	if _, out.Uncompressed = stream.(*body.Decoding); out.Uncompressed {
		out.TransferEncoding = nil
	}
	out.Body = &responseBody{stream: stream, header: h, response: out}
	return out
}

// announceTrailers adds the names in a Trailer field, which have values after the body.
func announceTrailers(out *http.Response, list []byte) {
	if out.Trailer == nil {
		out.Trailer = http.Header{}
	}
	for name := range bytes.SplitSeq(list, []byte(",")) {
		if name = bytes.TrimSpace(name); len(name) > 0 {
			out.Trailer[http.CanonicalHeaderKey(string(name))] = nil
		}
	}
}

// responseBody is the body of an http.Response that was converted.
type responseBody struct {
	stream   io.Reader
	header   *sluice.ResponseHeader
	response *http.Response // gets the trailer fields
	atEnd    bool
	isClosed atomic.Bool
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) {
	if b.isClosed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.stream.Read(p)
	if err == io.EOF && !b.atEnd {
		b.atEnd = true
		addSection(&b.response.Trailer, b.header.TrailerHeader())
	}
	return n, err
}

// Close implements io.Closer. It ends a Read that waits.
func (b *responseBody) Close() error {
	b.isClosed.Store(true)
	if c, ok := b.stream.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
