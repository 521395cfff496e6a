package netconn

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A coolProtocol answers like lineProtocol, and counts the calls of Cool. It is its own
// Acceptor.
type coolProtocol struct {
	lineProtocol
	cooled atomic.Int32
}

var _ engine.Cooler = (*coolProtocol)(nil)

func (p *coolProtocol) Open(engine.Conn) (engine.Protocol, []byte) { return p, nil }
func (*coolProtocol) Capabilities() engine.Capabilities            { return engine.CanCool }
func (p *coolProtocol) Cool()                                      { p.cooled.Add(1) }

// TestCool: the protocol of a connection that waits for long is told once, and that of a busy
// one never. Where no deadline may be set, each wait counts as long if memory is to be reduced,
// and none otherwise.
func TestCool(t *testing.T) {
	for _, test := range []struct {
		name       string
		options    engine.Options
		busy, idle int32 // calls after three requests, and after a minute
	}{
		{"usual", engine.Options{}, 0, 1},
		{"spares deadlines", engine.Options{SparesDeadlines: true}, 0, 0},
		{"reduces memory", engine.Options{SparesDeadlines: true, ReduceMemory: true}, 4, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := New(test.options).(*driver)
			client, server := net.Pipe()
			p := &coolProtocol{}
			go d.ServeConn(server, nil, p)
			for range 3 {
				answerOf(t, client)
			}
			synctest.Wait()
			busy := p.cooled.Load()
			time.Sleep(time.Minute)
			if idle := p.cooled.Load(); busy != test.busy || idle != test.idle {
				t.Errorf("%s: cooled %d times, then %d; want %d, %d", test.name, busy, idle, test.busy, test.idle)
			}
			_ = client.Close()
			if err := d.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBuffersStay: a conn that has ended lends the same buffers to its next connection; one
// that has cooled down has none.
func TestBuffersStay(t *testing.T) {
	d := New(engine.Options{}).(*driver)
	c := &conn{driver: d}
	c.attachBuffers()
	kept := c.buffers
	c.Out = make([]byte, 0, keptOutputSize+1)
	c.detachBuffers()
	if n := d.held.Load(); n != 0 || c.In != nil || c.Out != nil || cap(c.output.B) > keptOutputSize {
		t.Errorf("%d buffers are held after the end, input %v, output of %d bytes", n, c.In != nil, cap(c.output.B))
	}
	d.conns.put(c)
	if c.buffers != kept || c.driver != nil {
		t.Error("the pool does not have the buffers, or more than these")
	}
	c.driver = d
	c.attachBuffers()
	if n := d.held.Load(); n != 2 || c.buffers != kept || len(c.In) == 0 {
		t.Errorf("%d buffers are held by the next connection, want the 2 of the last one", n)
	}
	c.releaseBuffers()
	if n := d.held.Load(); n != 0 || c.buffers != (buffers{}) {
		t.Errorf("%d buffers are held after cooling down", n)
	}
}
