package sluice

import (
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	http1client "github.com/sluicehttp/sluice/internal/client/http1"
	http2client "github.com/sluicehttp/sluice/internal/client/http2"
	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/transfer"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
	"golang.org/x/net/http2"
)

// TestHTTP2HeadReceived: what becomes of the body of each response.
func TestHTTP2HeadReceived(t *testing.T) {
	const unknown = -1 // the length is not announced
	for _, tc := range []struct {
		name   string
		status int
		length int64
		isLast bool
		set    func(x *http2Call)
		form   http2Form
		err    error
	}{
		{"interim", 199, unknown, false, nil, noFinalHead, nil},
		{"final", 200, unknown, false, nil, bodyKept, nil},
		{"alone", 200, unknown, true, nil, headAlone, nil},
		{"HEAD", 200, 5, false, func(x *http2Call) { x.stream.IsHead = true }, bodyDropped, nil},
		{"204", 204, unknown, false, nil, bodyDropped, nil},
		{"304 with a length", 304, 5, false, func(x *http2Call) { x.resp.StreamBody = true }, bodyDropped, nil},
		{"skipped", 200, http1client.MaxDropped, false, func(x *http2Call) { x.resp.SkipBody = true }, bodyDropped, nil},
		{"skipped, too long", 200, http1client.MaxDropped + 1, false, func(x *http2Call) { x.resp.SkipBody = true }, bodyDropped, errUnwantedBody},
		{"skipped, of any length", 200, unknown, false, func(x *http2Call) { x.resp.SkipBody = true }, bodyDropped, errUnwantedBody},
		{"skipped, empty", 200, 0, false, func(x *http2Call) { x.resp.SkipBody = true }, bodyDropped, nil},
		{"stream", 200, unknown, false, func(x *http2Call) { x.resp.StreamBody = true }, bodyLent, nil},
		{"unwanted stream", 200, http1client.MaxDropped, false, func(x *http2Call) { x.resp.StreamBody, x.call.wants = true, wantsNone }, bodyDropped, nil},
		{"unwanted, in memory", 200, unknown, false, func(x *http2Call) { x.call.wants = wantsNone }, bodyKept, nil},
		{"wanted in memory", 200, unknown, false, func(x *http2Call) { x.resp.StreamBody, x.call.wants = true, wantsBytes }, bodyKept, nil},
		{"stream of a redirect that is followed", 301, 5, false, func(x *http2Call) { x.resp.StreamBody, x.call.wants = true, wantsBytes }, bodyDropped, nil},
		{"at the limit", 200, 10, false, func(x *http2Call) { x.c.MaxResponseBodySize = 10 }, bodyKept, nil},
		{"above the limit", 200, 11, false, func(x *http2Call) { x.c.MaxResponseBodySize = 10 }, bodyDropped, ErrBodyTooLarge},
		{"too long", 200, math.MaxInt64, false, nil, bodyDropped, ErrBodyTooLarge},
		{"accepted CONNECT", 299, unknown, true, func(x *http2Call) { x.protocol = []byte("p") }, bodyLent, nil},
		{"refused CONNECT", 300, unknown, true, func(x *http2Call) { x.protocol = []byte("p") }, headAlone, nil},
		{"refused CONNECT with a body", 300, unknown, false, func(x *http2Call) { x.protocol = []byte("p") }, bodyLent, nil},
	} {
		x := &http2Call{c: &HostClient{}, call: new(clientCall), req: new(Request), resp: new(Response)}
		if tc.set != nil {
			tc.set(x)
		}
		var head h2.Head
		head.StatusCode, head.ContentLength = tc.status, tc.length
		if tc.length != unknown {
			head.Flags = h1.HasLength
		}
		isStreamed, err := x.HeadReceived(&head, tc.isLast)
		if x.form != tc.form || err != tc.err || isStreamed != (tc.form == bodyLent) {
			t.Errorf("%s: form %d, want %d; streamed %v, %v", tc.name, x.form, tc.form, isStreamed, err)
		}
		if tc.form != noFinalHead && (x.resp.StatusCode() != tc.status || x.resp.limit != x.c.MaxResponseBodySize) {
			t.Errorf("%s: status %d, limit %d", tc.name, x.resp.StatusCode(), x.resp.limit)
		}
		if tc.form == bodyKept && x.resp.StreamBody {
			t.Errorf("%s: the response is to have a stream", tc.name)
		}
	}
	x := &http2Call{c: &HostClient{MaxResponseBodySize: -1}, call: new(clientCall), req: new(Request), resp: new(Response)}
	var head h2.Head
	head.StatusCode, head.ContentLength = 200, 1
	if _, err := x.HeadReceived(&head, false); err != nil || x.resp.limit != 0 {
		t.Errorf("a negative limit: %v, %d", err, x.resp.limit)
	}
}

// TestHTTP2BodyReceived: bodies are kept up to the limit, and dropped up to http1client.MaxDropped.
func TestHTTP2BodyReceived(t *testing.T) {
	x := &http2Call{form: bodyDropped, resp: new(Response)}
	for _, step := range []struct {
		n   int
		err error
	}{{1, nil}, {http1client.MaxDropped - 1, nil}, {1, errUnwantedBody}} {
		if err := x.BodyReceived(make([]byte, step.n)); err != step.err || len(x.resp.buffered()) != 0 {
			t.Errorf("dropped %d: %v, %d bytes", x.unwanted, err, len(x.resp.buffered()))
		}
	}
	x = &http2Call{form: bodyKept, resp: new(Response)}
	x.resp.limit = 5
	for i, err := range []error{nil, nil, ErrBodyTooLarge} {
		if got := x.BodyReceived([]byte("abc")[:2+i%2]); got != err {
			t.Errorf("kept: %v, want %v", got, err)
		}
	}
	if string(x.resp.buffered()) != "ababc" {
		t.Errorf("kept %q", x.resp.buffered())
	}
}

// TestHTTP2Explain: what the failure of a stream means to the caller.
func TestHTTP2Explain(t *testing.T) {
	violation, other := &h2.Error{}, errors.New("other")
	for _, tc := range []struct {
		name string
		err  error
		set  func(x *http2Call)
		want error
		same bool // the error is unchanged
	}{
		{"HTTP_1_1_REQUIRED", other, func(x *http2Call) { x.call.needsHTTP1, x.c.HTTP2 = true, HTTP2Only }, ErrNoHTTP2, false},
		{"HTTP_1_1_REQUIRED, auto", other, func(x *http2Call) { x.call.needsHTTP1, x.c.HTTP2 = true, HTTP2Auto }, other, true},
		{"not HTTP/2", violation, nil, ErrNoHTTP2, false},
		{"a violation over TLS", violation, func(x *http2Call) { x.c.IsTLS = true }, violation, true},
		{"a violation later", violation, func(x *http2Call) { x.member.Conn.isSettled.Store(true) }, violation, true},
		{"another error at first", other, nil, other, true},
		{"end before the head", io.EOF, nil, io.EOF, false},
		{"end after the head", io.EOF, func(x *http2Call) { x.form = bodyKept }, io.ErrUnexpectedEOF, false},
		{"GOAWAY", http2client.ErrGoingAway, nil, io.EOF, false},
		{"source", http2client.ErrSourceLength, func(x *http2Call) { x.source.Count, x.stream.Length = 3, 5 }, io.ErrUnexpectedEOF, false},
	} {
		x := &http2Call{c: &HostClient{}, member: pool.NewMember(&http2Peer{}, 1), call: new(clientCall), req: new(Request)}
		if tc.set != nil {
			tc.set(x)
		}
		err := x.explain(tc.err)
		if !errors.Is(err, tc.want) || (err == tc.err) != tc.same {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		if tc.name == "source" && err.Error() != "sluice: body stream ended after 3 of 5 bytes: unexpected EOF" {
			t.Error(err)
		}
	}
}

// TestHTTP2CallForgets: a call in the pool has nothing of the last one.
func TestHTTP2CallForgets(t *testing.T) {
	x := acquireHTTP2Call()
	x.c, x.call, x.req, x.resp, x.member = &HostClient{}, new(clientCall), new(Request), new(Response), pool.NewMember(&http2Peer{}, 1)
	x.content, x.late, x.form, x.unwanted = buf.Get(1), new(message.RequestHeader), bodyLent, 1
	x.framing, x.source = message.Framing{Length: 1}, transfer.Source{Count: 1}
	s := &x.stream
	s.Request, s.Content, s.Source, s.Context = x, []byte("x"), strings.NewReader(""), t.Context()
	s.Length, s.HasTrailer, s.IsHead = 1, true, true
	x.trailers.Add(0, []byte("x"), []byte("y"))
	releaseHTTP2Call(x)
	if x.c != nil || x.call != nil || x.req != nil || x.resp != nil || x.member != nil || x.content != nil || x.late != nil || x.form != noFinalHead ||
		x.unwanted != 0 || x.framing != (message.Framing{}) || x.source.Count != 0 || x.trailers.Len() != 0 {
		t.Errorf("the call keeps %+v", x)
	}
	if s.Request != nil || s.Content != nil || s.Source != nil || s.Context != nil || s.Length != 0 || s.HasTrailer || s.IsHead {
		t.Errorf("the stream keeps %+v", s)
	}
}

// TestHTTP2InvalidRequest: a request that cannot be written gives its place back, and is
// not sent again.
func TestHTTP2InvalidRequest(t *testing.T) {
	peer := newFramePeer(t, func(p *framePeer) { p.request() })
	c := peer.host()
	c.HTTP2 = HTTP2Only
	var call clientCall
	m, _, err := c.takeEither(&call)
	if err != nil {
		t.Fatal(err)
	}
	req, resp := newCall("GET", "http://a b/")
	isStale, retry, err := c.roundTripHTTP2(&call, m, req, resp)
	if invalid := InvalidHostError(""); isStale || retry || !errors.As(err, &invalid) {
		t.Errorf("stale %v, retry %v, %v", isStale, retry, err)
	}
	checkPool(t, c, 1, 1)
	c.CloseIdleConnections()
}

// TestHTTP2NotChosen: HTTP/2 needs a TLS connection whose handshake succeeds. The
// connection is closed if it does not.
func TestHTTP2NotChosen(t *testing.T) {
	c := &HostClient{IsTLS: true, HTTP2: HTTP2Auto}
	if isHTTP2, err := c.chosen(&stubConn{}); isHTTP2 || err != nil {
		t.Errorf("not TLS: %v, %v", isHTTP2, err)
	}
	stub := &stubConn{}
	c = &HostClient{Addr: "h:443", IsTLS: true, HTTP2: HTTP2Auto, Dial: func(string) (net.Conn, error) {
		return tls.Client(stub, &tls.Config{ServerName: "h"}), nil
	}}
	req, resp := newCall("GET", "https://h/")
	var dialed *ErrDialWithUpstream
	if err := c.DoTimeout(req, resp, time.Hour); err != ErrTLSHandshakeTimeout && !errors.As(err, &dialed) {
		t.Errorf("a failed handshake: %v", err)
	}
	if n := len(stub.told); n == 0 || stub.told[n-1] != "close" {
		t.Errorf("the connection is open after %q", stub.told)
	}
	checkPool(t, c, 0, 0)
}

// TestConnectProtocolFails: which failures are final, after how many attempts.
func TestConnectProtocolFails(t *testing.T) {
	admits := http2.Setting{ID: 8, Val: 1} // SETTINGS_ENABLE_CONNECT_PROTOCOL
	refuse := func(code http2.ErrCode) func(p *framePeer, stream uint32) {
		return func(p *framePeer, stream uint32) { _ = p.WriteRSTStream(stream, code) }
	}
	for _, tc := range []struct {
		name     string
		answer   func(p *framePeer, stream uint32)
		requests int64
		status   int // 0: an error
	}{
		{"refused each time", refuse(http2.ErrCodeRefusedStream), 3, 0},
		{"reset", refuse(http2.ErrCodeInternal), 1, 0},
		{"answered without a body", func(p *framePeer, stream uint32) { p.answer(stream, "403", "") }, 1, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var requests atomic.Int64
			peer := newFramePeer(t, func(p *framePeer) {
				for stream := p.head(); stream != 0; stream = p.head() {
					requests.Add(1)
					tc.answer(p, stream)
				}
			}, admits)
			var host *HostClient
			c := &Client{HTTP2: HTTP2Only, MaxIdemponentCallAttempts: 3, ConfigureClient: func(hc *HostClient) error { host = hc; return nil }}
			req, resp := newCall("GET", peer.url("/"))
			conn, err := c.ConnectProtocol(t.Context(), "p", req, resp)
			if conn != nil || (err == nil) != (tc.status != 0) || tc.status != 0 && resp.StatusCode() != tc.status {
				t.Errorf("%v, %v, status %d", conn, err, resp.StatusCode())
			}
			if requests.Load() != tc.requests || req.call != nil || host.PendingRequests() != 0 || host.lastUse.Load() == 0 {
				t.Errorf("%d requests, want %d; %+v, %d pending", requests.Load(), tc.requests, req.call, host.PendingRequests())
			}
			checkPool(t, host, 1, 1)
			c.CloseIdleConnections()
		})
	}
	req, resp := newCall("GET", "ftp://h/")
	if conn, err := new(Client).ConnectProtocol(t.Context(), "p", req, resp); conn != nil || err != errUnsupportedScheme {
		t.Errorf("ftp: %v, %v", conn, err)
	}
	c := &Client{HTTP2: HTTP2Auto, ConfigureClient: func(hc *HostClient) error { hc.IsTLS = true; return nil }}
	req, resp = newCall("GET", "http://h/")
	if conn, err := c.ConnectProtocol(t.Context(), "p", req, resp); conn != nil || err != ErrHostClientRedirectToDifferentScheme {
		t.Errorf("another scheme: %v, %v", conn, err)
	}
}
