package body

import (
	"bufio"
	"errors"
	"io"
	"sync"

	"github.com/sluicehttp/sluice/internal/buf"
)

// writerBuffer is the size of the bufio.Writer that the function gets.
const writerBuffer = 4096

// MaxInFlight limits how many bytes the function may be ahead of the reader. The
// bytes that the reader copies at a time come on top.
const MaxInFlight = 128 << 10

// copySize is how many bytes WriteTo copies at a time.
const copySize = 32 << 10

// errReaderClosed is returned to a function whose reader is closed.
var errReaderClosed = errors.New("sluice: the reader of the stream is closed")

// Pipe carries bytes from a function that writes to one reader. The reader may
// close it at any time; Read then returns what was written before, and io.EOF.
type Pipe struct {
	mu      sync.Mutex
	changed sync.Cond
	// buffer holds the written bytes; start is how many of them were read. buffer
	// is nil before the first Write, and when no more bytes can arrive.
	buffer   *buf.Buffer
	start    int
	isClosed bool  // by the reader
	end      error // what Read returns after the data; nil while write runs
}

// NewPipe returns a Pipe. Run must be called.
func NewPipe() *Pipe {
	p := &Pipe{}
	p.changed.L = &p.mu
	return p
}

// Run calls write and ends the pipe. Read returns the error that panicked makes
// of the value of a panic.
func (p *Pipe) Run(write func(w *bufio.Writer), panicked func(value any) error) {
	end := io.ErrUnexpectedEOF // if write ended its goroutine (runtime.Goexit)
	defer func() {
		if v := recover(); v != nil {
			end = panicked(v)
		}
		p.finish(end)
	}()
	w := bufio.NewWriterSize(p, writerBuffer)
	write(w)
	end = io.EOF
	if err := w.Flush(); err != nil {
		end = err
	}
}

// finish sets the error that Read returns after the data.
func (p *Pipe) finish(end error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = end
	if p.isClosed {
		p.end = io.EOF // the error of write only says that the reader is closed
	}
	p.releaseIfEmpty()
	p.changed.Broadcast()
}

// Write implements io.Writer for the function. It waits for the reader when
// the pipe is full.
func (p *Pipe) Write(data []byte) (written int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for written < len(data) {
		for !p.isClosed && p.unread() == MaxInFlight {
			p.changed.Wait()
		}
		if p.isClosed {
			return written, errReaderClosed
		}
		n := min(len(data)-written, MaxInFlight-p.unread())
		p.store(data[written : written+n])
		written += n
		p.changed.Broadcast()
	}
	return written, nil
}

func (p *Pipe) unread() int {
	if p.buffer == nil {
		return 0
	}
	return len(p.buffer.B) - p.start
}

// store appends data. The caller has checked that it fits into
// MaxInFlight.
func (p *Pipe) store(data []byte) {
	need := p.unread() + len(data)
	switch b := p.buffer; {
	case b == nil:
		p.buffer = buf.Get(max(need, writerBuffer))
	case len(b.B)+len(data) <= cap(b.B):
	case need <= cap(b.B):
		b.B = b.B[:copy(b.B, b.B[p.start:])]
		p.start = 0
	default:
		larger := buf.Get(min(max(need, 2*cap(b.B)), MaxInFlight))
		larger.B = append(larger.B, b.B[p.start:]...)
		b.Release()
		p.buffer, p.start = larger, 0
	}
	p.buffer.B = append(p.buffer.B, data...)
}

// Read implements io.Reader. It waits for data.
func (p *Pipe) Read(dst []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.peek(dst)
	p.discard(n)
	return n, err
}

// WriteTo implements io.WriterTo. Bytes that w does not accept can still be
// read.
func (p *Pipe) WriteTo(w io.Writer) (written int64, err error) {
	b := buf.Get(copySize)
	defer b.Release()
	for err == nil {
		var n int
		p.mu.Lock()
		n, err = p.peek(b.B[:cap(b.B)])
		p.mu.Unlock()
		if err == io.EOF {
			return written, nil
		}
		if err != nil {
			return written, err
		}
		taken, writeErr := w.Write(b.B[:n])
		if err = writeErr; err == nil && taken != n {
			err = io.ErrShortWrite
		}
		taken = max(0, min(taken, n))
		p.mu.Lock()
		p.discard(taken)
		p.mu.Unlock()
		written += int64(taken)
	}
	return written, err
}

// peek copies unread bytes to dst. It waits until there are some.
func (p *Pipe) peek(dst []byte) (int, error) {
	for p.unread() == 0 {
		switch {
		case p.end != nil:
			return 0, p.end
		case p.isClosed:
			return 0, io.EOF
		case len(dst) == 0:
			return 0, nil
		}
		p.changed.Wait()
	}
	return copy(dst, p.buffer.B[p.start:]), nil
}

// discard removes n unread bytes.
func (p *Pipe) discard(n int) {
	if n == 0 {
		return
	}
	p.start += n
	if p.start == len(p.buffer.B) {
		p.buffer.B, p.start = p.buffer.B[:0], 0
	}
	p.releaseIfEmpty()
	p.changed.Broadcast()
}

// releaseIfEmpty releases the buffer when no more bytes can arrive.
func (p *Pipe) releaseIfEmpty() {
	if p.buffer != nil && p.unread() == 0 && (p.end != nil || p.isClosed) {
		p.buffer.Release()
		p.buffer, p.start = nil, 0
	}
}

// Close implements io.Closer for the reader. The next write fails.
func (p *Pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isClosed = true
	p.releaseIfEmpty()
	p.changed.Broadcast()
	return nil
}
