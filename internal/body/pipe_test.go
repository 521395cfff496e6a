package body

import (
	"bufio"
	"io"
	"testing"
	"testing/synctest"

	"github.com/sluicehttp/sluice/internal/buf"
)

// start returns a pipe that write runs on.
func start(write func(w *bufio.Writer)) *Pipe {
	p := NewPipe()
	go p.Run(write, func(any) error { return io.ErrUnexpectedEOF })
	return p
}

// The buffer is one of the pool's, and no larger than what may be in flight.
func TestStreamBuffersAreBounded(t *testing.T) {
	largest := cap(buf.Get(MaxInFlight).B)
	p := NewPipe()
	data := make([]byte, 3000)
	for p.unread() < MaxInFlight {
		p.Write(data[:min(len(data), MaxInFlight-p.unread())])
	}
	for range 1000 { // a reader that never reads all
		p.Read(data)
		p.Write(data)
	}
	if got := cap(p.buffer.B); got != largest {
		t.Errorf("room for %d bytes, want %d", got, largest)
	}
}

// The last byte that is read gives the buffer back, before Close.
func TestReadStreamsHoldNoBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(func(w *bufio.Writer) { w.WriteString("all") })
		synctest.Wait() // it has ended
		got := make([]byte, 3)
		if n, err := r.Read(got); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		if r.buffer != nil {
			t.Error("the buffer is held")
		}
		r.Close()
	})
}

func TestAStreamWriterIsHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrote := 0
		var failure error
		r := start(func(w *bufio.Writer) {
			block := make([]byte, 1000)
			for failure == nil {
				if _, failure = w.Write(block); failure == nil {
					failure = w.Flush()
				}
				if failure == nil {
					wrote += len(block)
				}
			}
		})
		synctest.Wait()
		if wrote < 64<<10 || wrote > MaxInFlight {
			t.Errorf("%d bytes ahead", wrote)
		}
		before := wrote
		io.ReadFull(r, make([]byte, 50_000))
		synctest.Wait()
		if wrote <= before || wrote > MaxInFlight+50_000 {
			t.Errorf("%d bytes after a read of 50000", wrote)
		}
		r.Close()
		synctest.Wait()
		if failure != errReaderClosed {
			t.Errorf("the writer got %v", failure)
		}
		rest, err := io.ReadAll(r)
		if err != nil || len(rest) == 0 || len(rest) > MaxInFlight {
			t.Errorf("after Close: %d bytes, %v", len(rest), err)
		}
	})
}

// counting takes most bytes in one Write, and says so with err.
type counting struct {
	got  []byte
	most int
	err  error
}

func (c *counting) Write(p []byte) (int, error) {
	n := min(len(p), c.most)
	c.got = append(c.got, p[:n]...)
	return n, c.err
}

// What a Writer did not take can still be read.
func TestPipeWriteTo(t *testing.T) {
	for name, c := range map[string]struct {
		w    counting
		err  error
		rest string
	}{
		"all":        {counting{most: 10}, nil, ""},
		"some":       {counting{most: 3}, io.ErrShortWrite, "t"},
		"some, told": {counting{most: 3, err: errSource}, errSource, "t"},
		"none":       {counting{err: errSource}, errSource, "text"},
	} {
		r := start(func(w *bufio.Writer) { w.WriteString("text") })
		n, err := r.WriteTo(&c.w)
		if int(n) != len(c.w.got) || err != c.err {
			t.Errorf("%s: %d, %v, want %v", name, n, err, c.err)
		}
		if rest, err := io.ReadAll(r); string(rest) != c.rest || err != nil {
			t.Errorf("%s: the rest is %q, %v", name, rest, err)
		}
	}
	broken := NewPipe()
	go broken.Run(func(*bufio.Writer) { panic("function") }, func(any) error { return errSource })
	if n, err := broken.WriteTo(io.Discard); n != 0 || err != errSource {
		t.Errorf("a panic: %d, %v", n, err)
	}
}

// A Read without room waits for nothing.
func TestPipeReadNothing(t *testing.T) {
	if n, err := NewPipe().Read(nil); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
