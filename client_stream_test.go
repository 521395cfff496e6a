package sluice

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
)

const (
	sizedHello   = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	chunkedHello = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX-End: yes\r\n\r\n"
	closedHello  = "HTTP/1.1 200 OK\r\n\r\nhello"
)

// Streams that are read, closed and cancelled by many at the same time.
func TestStreamsUnderChurn(t *testing.T) {
	p := newClientPeer(t, answering(chunkedHello))
	c := p.host()
	c.MaxConns, c.MaxConnWaitTimeout, c.StreamResponseBody = 3, clientPatience, true
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for j := range 60 {
				ctx, cancel := context.WithCancel(t.Context())
				req, resp := newCall("GET", p.url("/"))
				if err := c.DoContext(ctx, req, resp); err != nil {
					t.Error(err)
					cancel()
					continue
				}
				var two sync.WaitGroup
				s := resp.BodyStream()
				two.Go(func() { _, _ = io.Copy(io.Discard, s) })
				switch (i + j) % 3 {
				case 0:
					two.Go(cancel)
				case 1:
					two.Go(func() { _ = s.(io.Closer).Close() })
				}
				two.Wait()
				resp.Reset()
				cancel()
			}
		})
	}
	within(t, "the churn", all.Wait)
	eventually(t, "none in use", func() bool { return c.ConnsCount() == c.IdleConnsCount() })
	if body := fmt.Sprint(c.waiters()); body != "0" {
		t.Error(body, "wait")
	}
}
