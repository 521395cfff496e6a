package netconn

import (
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A panickingProtocol panics where DetachIdle calls it.
type panickingProtocol struct {
	lineProtocol
	capabilities engine.Capabilities
}

func (p *panickingProtocol) Capabilities() engine.Capabilities { return p.capabilities }
func (*panickingProtocol) Pack([]byte) ([]byte, bool)          { panic("Pack") }
func (p *panickingProtocol) Closed(error) {
	if p.capabilities == 0 {
		panic("Closed")
	}
}
func (p *panickingProtocol) Open(engine.Conn) (engine.Protocol, []byte) {
	return p, nil
}

// TestDetachPanics: DetachIdle does not wait for connections that a panic has ended.
func TestDetachPanics(t *testing.T) {
	for _, capabilities := range []engine.Capabilities{0, engine.CanPack} {
		ln, dial := listenTCP(t)
		e := serve(t, ln, &panickingProtocol{capabilities: capabilities})
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, c, make([]byte, 1))
		for e.Stats().Active > 0 {
			time.Sleep(100 * time.Microsecond)
		}
		if n := e.DetachIdle(-1, func(net.Conn, engine.Parcel) { t.Error("it was given") }); n != 0 {
			t.Errorf("%d connections were detached", n)
		}
		_ = c.Close()
	}
}
