package compact

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

// errLater is the temporary error of a slowConn.
var errLater = errors.New("later")

// A slowConn gives some bytes at a time, and errLater between.
type slowConn struct {
	net.Conn
	step  int
	later bool
}

func (s *slowConn) Read(p []byte) (int, error) {
	if s.later = !s.later; s.later {
		return 0, errLater
	}
	return s.Conn.Read(p[:min(len(p), s.step)])
}

// Records come in pieces, with a temporary error between.
func TestPieces(t *testing.T) {
	for _, step := range []int{1, 4, 5, 100, 5000} {
		near, far := shake(t, NewListener(serverConfig(t)), clientConfig())
		c := near.(*Conn)
		c.below = &slowConn{Conn: c.below, step: step}
		data := bytes.Repeat([]byte("0123456789"), 3_000)
		go func() {
			far.Write(data[:1])
			far.Write(data[1:])
			far.Close()
		}()
		var got []byte
		p := make([]byte, 1000)
		for {
			n, err := c.Read(p)
			got = append(got, p[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil && err != errLater {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, data) {
			t.Errorf("step %d: %d bytes", step, len(got))
		}
		if c.input != nil {
			t.Errorf("step %d: it has a buffer", step)
		}
	}
}

// A part of a record is kept in a buffer for what has come, and not for what its head
// announces.
func TestPartOfRecord(t *testing.T) {
	const head = "\x17\x03\x03\x40\x11" // of the longest record
	for _, size := range []int{1, 5, 6, 500, 600, 3000, 9000, 16_000} {
		near, far := shake(t, NewListener(serverConfig(t)), clientConfig())
		c := near.(*Conn)
		c.below = &slowConn{Conn: c.below, step: 1 << 20}
		if _, err := far.NetConn().Write(append([]byte(head), make([]byte, size)...)[:size]); err != nil {
			t.Fatal(err)
		}
		for len(c.received) < size {
			if n, err := c.Read(make([]byte, 10)); n != 0 || err != errLater {
				t.Fatalf("%d, %v", n, err)
			}
		}
		if most := max(smallInput, inputGrowth*size); cap(c.input.B) > most {
			t.Errorf("%d bytes are kept in %d, at most %d are wanted", size, cap(c.input.B), most)
		}
	}
}

// A Read that waits for the rest of a record has room for a part of it only.
func TestWaitForRest(t *testing.T) {
	near, _ := shake(t, NewListener(serverConfig(t)), clientConfig())
	c := near.(*Conn)
	d := &dripConn{Conn: c.below, of: c, record: append([]byte("\x17\x03\x03\x40\x11"), make([]byte, 16_000)...)}
	c.below = d
	if n, err := c.Read(make([]byte, 10)); n != 0 || err != io.ErrUnexpectedEOF {
		t.Fatalf("%d, %v", n, err)
	}
	for have, room := range d.rooms {
		if most := max(2*inputSize, 2*inputGrowth*have); room > most {
			t.Errorf("after %d bytes there is room for %d, at most %d are wanted", have, room, most)
		}
	}
	if len(d.rooms) < 5 {
		t.Errorf("it has read %d times", len(d.rooms))
	}
}

// A dripConn gives a part of a record in growing pieces, and notes what room there was.
type dripConn struct {
	net.Conn
	of     *Conn
	record []byte
	rooms  map[int]int // by what had come before
}

func (d *dripConn) Read(p []byte) (int, error) {
	have := len(d.of.received)
	if d.rooms == nil {
		d.rooms = map[int]int{}
	}
	d.rooms[have] = cap(d.of.input.B)
	if len(d.record) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), have+1)], d.record)
	d.record = d.record[n:]
	return n, nil
}

// A connection pauses and goes on between any two messages, and not while there is more to
// read.
func TestPause(t *testing.T) {
	near, far := shake(t, NewListener(serverConfig(t)), clientConfig())
	c := near.(*Conn)
	below := c.below
	p := make([]byte, 100)
	for i := range 5 {
		if _, err := far.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(p[:2]); n != 2 || err != nil || c.CanPause() {
			t.Fatalf("round %d: %d, %v, it can pause: %v", i, n, err, c.CanPause())
		}
		if n, err := c.Read(p[2:]); n != 2 || err != nil || string(p[:4]) != "ping" {
			t.Fatalf("round %d: %q, %v", i, p[:n], err)
		}
		if !c.CanPause() {
			t.Fatalf("round %d: it cannot pause", i)
		}
		var state tls13.State
		facts := c.Pause(&state)
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("it writes while it pauses")
		}
		var err error
		if c, err = NewConn(below, &state, facts); err != nil {
			t.Fatal(err)
		}
		if state != (tls13.State{}) {
			t.Error("the state is not erased")
		}
		if _, err := c.Write([]byte("pong")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(far, p[:4]); err != nil || string(p[:4]) != "pong" {
			t.Fatalf("round %d: the client has %q, %v", i, p[:4], err)
		}
	}
	if err := c.CloseWrite(); err != nil || c.CanPause() {
		t.Errorf("%v, it can pause: %v", err, c.CanPause())
	}
}

// What was read is overwritten in the buffer, which others get.
func TestInputIsOverwritten(t *testing.T) {
	near, far := shake(t, NewListener(serverConfig(t)), clientConfig())
	c := near.(*Conn)
	p := make([]byte, 100)
	for _, end := range []func(){func() {
		if n, err := c.Read(p); n != 7 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}, c.End} {
		if _, err := far.Write([]byte("a secret")); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(p[:1]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		input := c.input.B[:cap(c.input.B)]
		if !bytes.Contains(input, []byte(" secret")) {
			t.Error("it is somewhere else")
		}
		if end(); bytes.Contains(input, []byte("secret")) || c.input != nil {
			t.Error("the buffer has what was read")
		}
	}
}

// Close erases the keys, also when a Read waits meanwhile: when that has returned.
func TestCloseErases(t *testing.T) {
	for _, waits := range []bool{false, true} {
		near, _ := shake(t, NewListener(serverConfig(t)), clientConfig())
		c := near.(*Conn)
		g := &gateConn{Conn: c.below, entered: make(chan struct{}), opened: make(chan struct{})}
		c.below = g
		var read sync.WaitGroup
		if waits {
			read.Go(func() {
				if n, err := c.Read(make([]byte, 1)); err == nil {
					t.Errorf("it has read %d bytes", n)
				}
			})
			<-g.entered
		}
		c.Close()
		close(g.opened)
		read.Wait()
		for isErased := false; !isErased; runtime.Gosched() {
			c.reading.Lock()
			_, _, err := c.layer.Next(nil)
			isErased = err == tls13.ErrState
			c.reading.Unlock()
		}
	}
}

// A gateConn reads when it is opened.
type gateConn struct {
	net.Conn
	entered, opened chan struct{}
}

func (g *gateConn) Read(p []byte) (int, error) {
	close(g.entered)
	<-g.opened
	return g.Conn.Read(p)
}

// What a peer must not send ends the connection, and the peer is told.
func TestViolation(t *testing.T) {
	near, far := shake(t, NewListener(serverConfig(t)), clientConfig())
	if _, err := far.NetConn().Write([]byte("\x15\x03\x03\x00\x02\x01\x00")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 10)
	for range 2 {
		if _, err := near.Read(p); !errors.Is(err, tls13.ErrType) {
			t.Errorf("%v", err)
		}
	}
	if _, err := near.Write(p); !errors.Is(err, tls13.ErrClosed) {
		t.Errorf("then it writes: %v", err)
	}
	var alert net.Error
	if _, err := far.Read(p); err == nil || !errors.As(err, &alert) || !bytes.Contains([]byte(err.Error()), []byte("unexpected message")) {
		t.Errorf("the client gets %v", err)
	}
}

// The end without an alert is an end between records, and none within one.
func TestEndWithoutAlert(t *testing.T) {
	for _, c := range []struct {
		sends []byte
		err   error
	}{{nil, io.EOF}, {[]byte{23}, io.ErrUnexpectedEOF}, {[]byte{23, 3, 3, 0, 30, 1, 2, 3}, io.ErrUnexpectedEOF}} {
		near, far := shake(t, NewListener(serverConfig(t)), clientConfig())
		socket := far.NetConn().(*net.TCPConn)
		if _, err := socket.Write(c.sends); err != nil {
			t.Fatal(err)
		}
		if err := socket.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := near.Read(make([]byte, 10)); err != c.err {
			t.Errorf("% x: %v, want %v", c.sends, err, c.err)
		}
	}
}

// Both directions are used at once, and closed meanwhile.
func TestConcurrent(t *testing.T) {
	near, far := shake(t, NewListener(serverConfig(t)), clientConfig())
	data := bytes.Repeat([]byte("0123456789"), 50_000)
	var all sync.WaitGroup
	for _, one := range []net.Conn{near, far} {
		for range 2 {
			all.Go(func() {
				if _, err := one.Write(data); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if n, err := io.CopyN(io.Discard, one, int64(len(data))); err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
			})
		}
	}
	all.Wait()
	all.Go(func() { near.Close() })
	all.Go(func() { near.Write(data) })
	all.Go(func() { io.Copy(io.Discard, near) })
	all.Wait()
	far.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, far); err != nil && !errors.Is(err, io.EOF) {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("the client waits: %v", err)
		}
	}
}

// The first records are small, so that each packet can be used as it comes.
func TestRecordSizes(t *testing.T) {
	near, far := shake(t, NewListener(serverConfig(t)), clientConfig())
	go near.Write(make([]byte, 100_000))
	var sizes []int
	socket := far.NetConn()
	for total := 0; total < 100_000; {
		head := make([]byte, tls13.HeaderSize)
		if _, err := io.ReadFull(socket, head); err != nil {
			t.Fatal(err)
		}
		size := int(head[3])<<8 | int(head[4])
		if _, err := io.CopyN(io.Discard, socket, int64(size)); err != nil {
			t.Fatal(err)
		}
		size += tls13.HeaderSize - tls13.Overhead
		if len(sizes) == 0 && size < smallRecord {
			continue // a ticket
		}
		sizes = append(sizes, size)
		total += size
	}
	for i, size := range sizes {
		if i < 10 && size != smallRecord || i >= 10 && i < len(sizes)-1 && size != tls13.MaxData {
			t.Errorf("the records have %v bytes", sizes)
			break
		}
	}
}
