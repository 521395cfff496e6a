//go:build linux && (amd64 || arm64)

package core

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

// inRecords cuts a message into records of up to size bytes.
func inRecords(message []byte, size int) (records []byte) {
	for part := range slices.Chunk(message, size) {
		records = append(records, tls13.TypeHandshake, 3, 1)
		records = binary.BigEndian.AppendUint16(records, uint16(len(part)))
		records = append(records, part...)
	}
	return records
}

// A ClientHello is complete with its last byte, however it is cut into records.
func TestPartOfHello(t *testing.T) {
	hello := nettest.ClientHello(t)
	for _, size := range []int{1, 3, 4, 100, len(hello)} {
		records := inRecords(hello[tls13.HeaderSize:], size)
		for n := range records {
			if !isPartOfHello(records[:n]) {
				t.Fatalf("records of %d: %d of %d bytes are all of it", size, n, len(records))
			}
		}
		if isPartOfHello(records) || isPartOfHello(append(records, 20, 3, 3)) {
			t.Errorf("records of %d: there is more of it", size)
		}
	}
	for name, c := range map[string]struct {
		input  string
		isPart bool
	}{
		"nothing":                   {"", true},
		"four bytes of HTTP":        {"GET ", true},
		"HTTP":                      {"GET /", false},
		"half an alert":             {"\x15\x03\x01\x00\x02\x02", true},
		"an alert":                  {"\x15\x03\x01\x00\x02\x02\x28", false},
		"no data":                   {"\x16\x03\x01\x00\x00", false},
		"a record that is too long": {"\x16\x03\x01\x48\x01", false},
		"the longest record":        {"\x16\x03\x01\x48\x00", true},
		"another message":           {"\x16\x03\x01\x00\x04\x02\x00\x00\x08", false},
		"a hello that is too long":  {"\x16\x03\x01\x00\x04\x01\x01\x00\x00", false},
		"a long hello":              {"\x16\x03\x01\x00\x04\x01\x00\xff\xfc", true},
		"a hello and an alert":      {"\x16\x03\x01\x00\x04\x01\x00\x00\x08\x15\x03\x01\x00\x02\x02\x28", false},
	} {
		if got := isPartOfHello([]byte(c.input)); got != c.isPart {
			t.Errorf("%s: part of a hello: %v", name, got)
		}
	}
}

// FuzzPartOfHello: what has been a part is one as long as no byte decides otherwise, and the
// decision stays.
func FuzzPartOfHello(f *testing.F) {
	hello := nettest.ClientHello(f)
	f.Add(hello)
	f.Add(inRecords(hello[tls13.HeaderSize:], 7))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("\x15\x03\x01\x00\x02\x02\x28"))
	f.Fuzz(func(t *testing.T, p []byte) {
		isPart := true
		for n := range len(p) + 1 {
			is := isPartOfHello(p[:n])
			if is && !isPart {
				t.Fatalf("the first %d bytes of %x are a part, fewer are not", n, p)
			}
			isPart = is
		}
	})
}

// While a ClientHello is not complete, its connection has a slot, and neither a conn nor a
// handshake. Then it is served like any other.
func TestPartOfHelloCostsASlot(t *testing.T) {
	for _, kept := range []bool{false, true} {
		ln := listen(t)
		options := engine.Options{HandshakeTimeout: time.Hour, NetConnIsKept: kept}
		d := serveOn(t, &engine.TLSListener{Listener: ln, Config: serverTLS(t)}, newEcho(), options)
		peer := &stoppingConn{Conn: dial(t, ln), after: []int{0, 1, 4, 5, 300}}
		peer.stopped = func() { expectWaitForHello(t, d) }
		peer.stopped()
		secure := tls.Client(peer, &tls.Config{InsecureSkipVerify: true})
		ask(t, secure, "hello")
		if len(peer.after) > 0 {
			t.Errorf("the client has not stopped at %v", peer.after)
		}
	}
}

// waitsForHello returns how many connections wait for a ClientHello and have only a
// slot.
func waitsForHello(d *driver) (count int) {
	d.table.each(func(_ int, p place) {
		word := p.slot().word.Load()
		if word&stateMask == stateIdle && word&flagHandshake != 0 && p.conn().Load() == nil {
			count++
		}
	})
	if begun, _ := d.handshakes.Count(); begun > 0 {
		return -1
	}
	return count
}

// expectWaitForHello expects that the only connection waits for a ClientHello, when the engine
// has seen what the client has sent.
func expectWaitForHello(t *testing.T, d *driver) {
	t.Helper()
	if err := d.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits", func() bool { return waitsForHello(d) == 1 })
}

// A stoppingConn calls stopped when it has written that many bytes.
type stoppingConn struct {
	net.Conn
	written int
	after   []int
	stopped func()
}

func (c *stoppingConn) Write(p []byte) (int, error) {
	sent := 0
	for len(c.after) > 0 && c.after[0] <= c.written+len(p)-sent {
		n, err := c.Conn.Write(p[sent : sent+c.after[0]-c.written])
		c.written += n
		sent += n
		if err != nil {
			return sent, err
		}
		c.after = c.after[1:]
		c.stopped()
	}
	n, err := c.Conn.Write(p[sent:])
	c.written += n
	return sent + n, err
}

// A connection that ends before its ClientHello is complete is gone, and so is one that
// Shutdown finds there.
func TestPartOfHelloEnds(t *testing.T) {
	ln := listen(t)
	d := serveOn(t, &engine.TLSListener{Listener: ln, Config: serverTLS(t)}, newEcho(), engine.Options{HandshakeTimeout: time.Hour})
	for _, end := range []func(net.Conn) error{net.Conn.Close, func(c net.Conn) error { return c.(*net.TCPConn).CloseWrite() }} {
		c := dial(t, ln)
		if _, err := c.Write(nettest.ClientHello(t)[:200]); err != nil {
			t.Fatal(err)
		}
		expectWaitForHello(t, d)
		if err := end(c); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end", func() bool { return d.countOpen() == 0 })
	}
	c := dial(t, ln)
	if _, err := c.Write(nettest.ClientHello(t)[:200]); err != nil {
		t.Fatal(err)
	}
	expectWaitForHello(t, d)
	if err := d.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the client read %d bytes and %v", n, err)
	}
}
