package client_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// erratic answers each request with its path, in a body of random size and framing. Many
// responses are late, come in parts or break off. With extra, some are followed by another one,
// which no request asked for.
func erratic(extra bool) func(c *harness.PeerConn) {
	return func(c *harness.PeerConn) {
		r := rand.New(rand.NewPCG(uint64(c.Number), 1))
		for req := c.Request(); req != nil; req = c.Request() {
			if r.IntN(3) == 0 {
				time.Sleep(time.Duration(r.IntN(8)) * time.Millisecond)
			}
			content := string(req.Header.RequestURI()) + strings.Repeat("x", r.IntN(3)*r.IntN(3000))
			answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(content), content)
			switch r.IntN(4) {
			case 0:
				answer = fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(content), content)
			case 1:
				answer = "HTTP/1.1 100 Continue\r\n\r\n" + answer
			}
			part := r.IntN(len(answer))
			switch r.IntN(20) {
			case 0:
				return
			case 1:
				c.Send(answer[:part])
				return
			case 2:
				c.Send(answer)
				return
			case 3:
				if extra {
					answer += "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nextra"
				}
			case 4:
				c.Send(answer[:part])
				time.Sleep(time.Duration(r.IntN(8)) * time.Millisecond)
				answer = answer[part:]
			}
			c.Send(answer)
		}
	}
}

// TestLateResponses: a call gets the response to its own request or none, also when earlier calls
// were given up, of which the responses come late.
func TestLateResponses(t *testing.T) {
	const callers, calls = 8, 30
	p := harness.NewClientPeer(t, erratic(true))
	inOrder := harness.NewClientPeer(t, erratic(false)) // what a pipeline gets counts as the next response
	host := func() *sluice.HostClient {
		c := p.Host()
		c.MaxConnWaitTimeout = clientPatience
		return c
	}
	pipeline := func(pending int) *sluice.PipelineClient {
		return &sluice.PipelineClient{Addr: inOrder.Addr(), MaxConns: 2, MaxPendingRequests: pending, ReadTimeout: clientPatience}
	}
	streaming := host()
	streaming.StreamResponseBody = true
	for name, do := range map[string]func(context.Context, *sluice.Request, *sluice.Response) error{
		"Client":           (&sluice.Client{MaxConnWaitTimeout: clientPatience, Dial: func(string) (net.Conn, error) { return net.Dial("tcp", p.Addr()) }}).DoContext,
		"HostClient":       host().DoContext,
		"streams":          streaming.DoContext,
		"PipelineClient":   pipeline(0).DoContext,
		"a short pipeline": pipeline(2).DoContext,
		"LBClient":         (&sluice.LBClient{Clients: []sluice.BalancingClient{host(), host()}, HedgeAfter: time.Millisecond}).DoContext,
		"LBClient of pipelines": (&sluice.LBClient{
			Clients: []sluice.BalancingClient{pipeline(4), pipeline(4)}, HedgeAfter: time.Millisecond,
		}).DoContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var running sync.WaitGroup
			for caller := range callers {
				r := rand.New(rand.NewPCG(uint64(caller), uint64(crc32.ChecksumIEEE([]byte(name)))))
				running.Go(func() { callLate(t, do, r, caller, calls) })
			}
			running.Wait()
		})
	}
}

// callLate makes calls that end at any time, with a Request and a Response that are used again.
func callLate(t *testing.T, do func(context.Context, *sluice.Request, *sluice.Response) error, r *rand.Rand, caller, calls int) {
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	succeeded := 0
	for i := range calls {
		if r.IntN(4) == 0 {
			sluice.ReleaseRequest(req)
			sluice.ReleaseResponse(resp)
			req, resp = sluice.AcquireRequest(), sluice.AcquireResponse()
		}
		path := fmt.Sprintf("/%d/%d/", caller, i)
		req.Reset()
		req.SetRequestURI("http://h" + path)
		if r.IntN(3) == 0 {
			req.Header.SetMethod("POST")
			req.SetBodyStream(strings.NewReader(strings.Repeat("b", r.IntN(5000))), -1)
		}
		limit := clientPatience
		if r.IntN(2) == 0 {
			limit = time.Duration(1+r.IntN(8000)) * time.Microsecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		if err := do(ctx, req, resp); err == nil {
			succeeded++
			var body []byte
			if resp.IsBodyStream() {
				body, err = io.ReadAll(resp.BodyStream())
			} else {
				body = resp.Body()
			}
			// What has come of a stream that breaks off is a part of the right body.
			want := path + strings.Repeat("x", max(len(body)-len(path), 0))
			if !strings.HasPrefix(want, string(body)) || err == nil && len(body) < len(path) {
				t.Errorf("%s: %.80q, %v", path, body, err)
			}
		}
		cancel()
	}
	if succeeded == 0 {
		t.Errorf("none of the calls of %d has succeeded", caller)
	}
}
