package client_test

import (
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
	"golang.org/x/net/http2"
)

// An idle connection answers PINGs, and ends after GOAWAY, although nobody uses it.
func TestClientHTTP2Idle(t *testing.T) {
	ended := make(chan bool, 1)
	peer := newFramePeer(t, func(p *framePeer) {
		stream, _ := p.request()
		p.answer(stream, "200", "answer")
		_ = p.WritePing(false, [8]byte{1})
		for {
			frame, err := p.ReadFrame()
			if err != nil {
				ended <- false
				return
			}
			if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
				break
			}
		}
		_ = p.WriteGoAway(stream, http2.ErrCodeNo, nil)
		p.request()
		ended <- true
	})
	c := peer.Host()
	c.HTTP2, c.MaxIdleConnDuration = sluice.HTTP2Only, time.Hour
	if err := c.Do(harness.NewCall("GET", peer.URL("/"))); err != nil {
		t.Fatal(err)
	}
	within(t, "PING and GOAWAY", func() {
		if !<-ended {
			t.Error("the PING was not answered")
		}
	})
	checkPool(t, c, 0, 0)
}
