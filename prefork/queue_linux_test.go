package prefork

import (
	"net"
	"testing"

	"github.com/sluicehttp/sluice/fasthttputil"
)

// What waits in a listener of the system can be seen; in others nothing does.
func TestQueueIsEmpty(t *testing.T) {
	memory := fasthttputil.NewInmemoryListener()
	defer memory.Close()
	if !isQueueEmpty(memory) {
		t.Error("connections in memory wait")
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if !isQueueEmpty(ln) {
		t.Error("connections wait before there is one")
	}
	c, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	until(t, "the connection waits", func() bool { return !isQueueEmpty(ln) })
}
