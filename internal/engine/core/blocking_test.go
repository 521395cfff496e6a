//go:build linux && (amd64 || arm64)

package core

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// Handlers may leave goroutines behind that read: the end of the Run is the end
// of their reads, and their conn is another connection's.
func TestReadersLeftBehind(t *testing.T) {
	for _, readers := range []int{1, 3} {
		ln, ended := listen(t), make(chan error, readers)
		a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
			text := inputOf(c)
			if text != "leave" {
				return append(out, text...), engine.Read
			}
			b := c.Blocking()
			for range readers {
				go func() {
					n, err := b.Read(make([]byte, 100))
					if n > 0 {
						err = errors.New("it has read something")
					}
					ended <- err
				}()
			}
			eventually(t, "they wait", func() bool {
				return c.run.blocking.Inside() == readers && c.slot().has(flagReadWait)
			})
			return append(out, text...), engine.Read
		}}
		d := serveOn(t, ln, a, engine.Options{})
		first := dial(t, ln)
		ask(t, first, "leave")
		for range readers {
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Errorf("%d readers: %v, want ErrClosed", readers, err)
			}
		}
		ask(t, first, "still there")
		_ = first.Close()
		eventually(t, "the end", func() bool { return d.countOpen() == 0 })
		ask(t, dial(t, ln), "somebody else")
	}
}

// Two goroutines wait at once, one to read and the other to write. This is for
// the race detector.
func TestReaderAndWriter(t *testing.T) {
	const size = 16 << 20
	ln, waiting := listen(t), make(chan bool)
	a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		inputOf(c)
		b, done := c.Blocking(), make(chan bool)
		go func() {
			_, _ = b.Read(make([]byte, 10))
			done <- true
		}()
		go func() {
			_, _ = b.Write(make([]byte, size))
			done <- true
		}()
		eventually(t, "both wait", func() bool {
			word := c.slot().word.Load()
			return word&flagReadWait != 0 && word&flagWriteWait != 0
		})
		waiting <- true
		<-done
		<-done
		return out, engine.Close
	}}
	serveOn(t, ln, a, engine.Options{})
	c := dial(t, ln)
	_, _ = c.Write([]byte("x"))
	<-waiting
	_, _ = c.Write([]byte("y"))
	if n, err := io.Copy(io.Discard, c); n != size || err != nil {
		t.Errorf("got %d bytes and %v, want %d", n, err, size)
	}
}

// A goroutine waits to read while the handler asks to be told of the peer's end. This is for the
// race detector.
func TestReaderAndWatch(t *testing.T) {
	ln := listen(t)
	a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		text, b, read := inputOf(c), c.Blocking(), make(chan bool)
		go func() {
			_, _ = b.Read(make([]byte, 10))
			close(read)
		}()
		c.OnPeerGone(func() {})
		eventually(t, "it waits", func() bool { return c.slot().has(flagReadWait) })
		b.SetReadDeadline(time.Unix(1, 0))
		<-read
		c.OnPeerGone(nil)
		return append(out, text...), engine.Read
	}}
	serveOn(t, ln, a, engine.Options{})
	for range 50 {
		c := dial(t, ln)
		ask(t, c, "x")
		_ = c.Close()
	}
}
