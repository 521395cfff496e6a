package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// expectations are what servers answer to "Expect: 100-continue", and whether the body comes.
var expectations = []struct {
	name     string
	statuses []int // before the body; 100 is the last one, unless another is final
	timeout  time.Duration
	status   int // that the client gets
	hasBody  bool
}{
	{"100", []int{100}, time.Hour, 200, true},
	{"103 and 100", []int{103, 100}, time.Hour, 200, true},
	{"417", []int{417}, time.Hour, 417, false},
	{"200", []int{200}, time.Hour, 200, false},
	{"103 and 200", []int{103, 200}, time.Hour, 200, false},
	{"no answer", nil, time.Millisecond, 200, true},
	{"no answer, no wait", nil, -1, 200, true},
	{"103 and no more", []int{103}, time.Millisecond, 200, true},
}

// expectedBodies are bodies of requests, by what holds them.
var expectedBodies = map[string]func(req *sluice.Request) (text string){
	"short": func(req *sluice.Request) string { req.SetBodyString("short"); return "short" },
	"long": func(req *sluice.Request) string {
		text := strings.Repeat("long ", 20000)
		req.SetBodyString(text)
		return text
	},
	"form": func(req *sluice.Request) string { req.PostArgs().Set("a", "1"); return "a=1" },
	"stream": func(req *sluice.Request) string {
		req.SetBodyStream(onlyReader{strings.NewReader("streamed")}, -1)
		return "streamed"
	},
	"sized stream": func(req *sluice.Request) string {
		req.SetBodyStream(onlyReader{strings.NewReader("streamed")}, 8)
		return "streamed"
	},
	"trailers": func(req *sluice.Request) string {
		req.SetBodyString("body")
		_ = req.Header.SetTrailer("X-Sum")
		req.Header.Set("X-Sum", "7")
		return "body"
	},
}

type onlyReader struct{ io.Reader }

// onExpectations runs all pairs with a client. For each, start returns a peer that
// answers with statuses and, if hasBody, with 200 after the body; what it got of the body
// comes to got.
func onExpectations(t *testing.T, mode sluice.HTTP2Mode, start func(t *testing.T, statuses []int, hasBody bool, got chan<- string) *harness.ClientPeer) {
	for _, e := range expectations {
		for kind, body := range expectedBodies {
			for _, streams := range []bool{false, true} {
				got := make(chan string, 2)
				p := start(t, e.statuses, e.hasBody, got)
				c := p.Host()
				c.HTTP2, c.ExpectContinueTimeout = mode, e.timeout
				var waits, continues atomic.Int32
				c.Trace = &sluice.ClientTrace{
					Wait100Continue: func() { waits.Add(1) },
					Got100Continue:  func() { continues.Add(1) },
				}
				for range 2 { // also on a connection that has been used
					req, resp := harness.NewCall("POST", p.URL("/"))
					req.Header.Set("Expect", "100-Continue")
					resp.StreamBody = streams
					want := body(req)
					if !e.hasBody {
						want = ""
					}
					within(t, e.name, func() {
						err := c.Do(req, resp)
						if err != nil || resp.StatusCode() != e.status || string(resp.Body()) != "answer" {
							t.Errorf("%s, %s: %v, %d %q", e.name, kind, err, resp.StatusCode(), resp.Body())
							return
						}
						if got := <-got; got != want {
							t.Errorf("%s, %s: %d bytes came, want %d", e.name, kind, len(got), len(want))
						}
					})
				}
				wantWaits, wantContinues := 2, 0
				if e.timeout < 0 {
					wantWaits = 0
				}
				if slices.Contains(e.statuses, 100) {
					wantContinues = 2
				}
				if int(continues.Load()) != wantContinues || e.hasBody && int(waits.Load()) != wantWaits {
					t.Errorf("%s, %s: %d waits, %d continues; want %d, %d", e.name, kind, waits.Load(), continues.Load(), wantWaits, wantContinues)
				}
				if want := map[bool]int{true: 1, false: 2}[e.hasBody || mode == sluice.HTTP2Only]; p.Accepted() != want {
					t.Errorf("%s, %s: %d connections, want %d", e.name, kind, p.Accepted(), want)
				}
				c.CloseIdleConnections()
				checkPool(t, c, 0, 0)
			}
		}
	}
}

// A body that the server shall ask for is sent when it does, or when the time is up. After
// a final response it is not sent, and the connection is closed.
func TestExpect(t *testing.T) {
	onExpectations(t, sluice.HTTP2Off, func(t *testing.T, statuses []int, hasBody bool, got chan<- string) *harness.ClientPeer {
		return harness.NewClientPeer(t, func(c *harness.PeerConn) {
			for {
				var req sluice.Request
				if req.Header.Read(c.Br) != nil {
					return
				}
				for _, status := range statuses {
					if status < 200 {
						c.Send(fmt.Sprintf("HTTP/1.1 %d Interim\r\n\r\n", status))
					} else {
						c.Send(fmt.Sprintf("HTTP/1.1 %d Final\r\nContent-Length: 6\r\n\r\nanswer", status))
					}
				}
				if !hasBody {
					rest, _ := io.ReadAll(c.Br)
					got <- string(rest)
					return
				}
				if err := req.ContinueReadBody(c.Br, 0); err != nil {
					t.Error(err)
				}
				got <- string(req.Body())
				c.Send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer")
			}
		})
	})
}

// Over HTTP/2, the stream is reset after a final response, and the connection stays.
func TestExpectHTTP2(t *testing.T) {
	onExpectations(t, sluice.HTTP2Only, func(t *testing.T, statuses []int, hasBody bool, got chan<- string) *harness.ClientPeer {
		return newFramePeer(t, func(p *framePeer) {
			for stream := p.head(); stream != 0; stream = p.head() {
				for _, status := range statuses {
					if status < 200 {
						p.interim(stream, status)
					} else {
						p.answer(stream, strconv.Itoa(status), "answer")
					}
				}
				var body []byte
				for isOver := false; !isOver; {
					switch frame := p.next().(type) {
					case *http2.DataFrame:
						body = append(body, frame.Data()...)
						isOver = frame.StreamEnded()
						if n := uint32(len(frame.Data())); n > 0 {
							_ = p.WriteWindowUpdate(0, n)
							_ = p.WriteWindowUpdate(stream, n)
						}
					case *http2.MetaHeadersFrame:
						isOver = frame.StreamEnded()
					case *http2.RSTStreamFrame:
						isOver = true
					case nil:
						return
					}
				}
				got <- string(body)
				if hasBody {
					p.answer(stream, "200", "answer")
				}
			}
		})
	})
}

// interim sends the head of an interim response.
func (p *framePeer) interim(stream uint32, status int) {
	p.block.Reset()
	_ = p.heads.WriteField(hpack.HeaderField{Name: ":status", Value: strconv.Itoa(status)})
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: p.block.Bytes(), EndHeaders: true})
}

// A request whose body waits ends with its context, and its body is closed.
func TestExpectContext(t *testing.T) {
	for _, mode := range []sluice.HTTP2Mode{sluice.HTTP2Off, sluice.HTTP2Only} {
		ctx, cancel := context.WithCancel(t.Context())
		var p *harness.ClientPeer
		if mode == sluice.HTTP2Only {
			p = newFramePeer(t, func(p *framePeer) { p.head(); cancel(); p.next() })
		} else {
			p = harness.NewClientPeer(t, func(c *harness.PeerConn) { c.SkipHead(); cancel(); c.Gone() })
		}
		c := p.Host()
		c.HTTP2, c.ExpectContinueTimeout = mode, time.Hour
		req, _ := harness.NewCall("POST", p.URL("/"))
		req.Header.Set("Expect", "100-continue")
		stream := &closingReader{Reader: strings.NewReader("never sent")}
		req.SetBodyStream(stream, -1)
		within(t, "the request", func() {
			if err := c.DoContext(ctx, req, nil); !errors.Is(err, context.Canceled) || !stream.isClosed.Load() || stream.Len() != len("never sent") {
				t.Errorf("%v: %v, closed %v, %d bytes left", mode, err, stream.isClosed.Load(), stream.Len())
			}
		})
		c.CloseIdleConnections()
	}
}

// closingReader tells that it was closed.
type closingReader struct {
	*strings.Reader
	isClosed atomic.Bool
}

func (r *closingReader) Close() error { r.isClosed.Store(true); return nil }
