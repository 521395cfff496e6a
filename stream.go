package sluice

import (
	"bufio"
	"errors"
	"io"
	"sync"

	"github.com/sluicehttp/sluice/internal/buf"
)

// A StreamWriter writes a body to w, usually over a longer time. w is buffered:
// call w.Flush to send what was written. A StreamWriter must return as soon as
// w returns an error, which means that nothing reads the body any more.
type StreamWriter func(w *bufio.Writer)

// streamWriterBuffer is the size of the bufio.Writer that a StreamWriter gets.
const streamWriterBuffer = 4096

// maxStreamInFlight limits how many bytes a StreamWriter may be ahead of its
// reader. The bytes that the reader copies at a time come on top.
const maxStreamInFlight = 128 << 10

// errStreamReaderClosed is returned to a StreamWriter whose reader is closed.
var errStreamReaderClosed = errors.New("sluice: the reader of the stream is closed")

// NewStreamReader runs sw in a new goroutine and returns a reader of the bytes
// that sw writes. sw blocks while it is 128 KiB ahead of the reader. If sw
// panics, Read returns the panic as *ErrBodyStreamWritePanic.
//
// The reader is an io.WriterTo. Close it, or sw may block for ever. After
// Close, Read still returns the bytes that sw had written, and then io.EOF.
// Close may be called concurrently with Read.
func NewStreamReader(sw StreamWriter) io.ReadCloser {
	p := newStreamPipe()
	go p.run(sw)
	return p
}

// NewBoundedStreamReader is NewStreamReader, whose readers are all bounded: sw
// is at most 160 KiB ahead of the bytes that the reader has passed on.
func NewBoundedStreamReader(sw StreamWriter) io.ReadCloser { return NewStreamReader(sw) }

// streamPipe carries bytes from a StreamWriter to one reader.
type streamPipe struct {
	mu      sync.Mutex
	changed sync.Cond
	// buffer holds the written bytes; start is how many of them were read. buffer
	// is nil before the first Write, and when no more bytes can arrive.
	buffer   *buf.Buffer
	start    int
	isClosed bool  // by the reader
	end      error // what Read returns after the data; nil while sw runs
}

func newStreamPipe() *streamPipe {
	p := &streamPipe{}
	p.changed.L = &p.mu
	return p
}

// run executes sw and ends the pipe.
func (p *streamPipe) run(sw StreamWriter) {
	end := io.ErrUnexpectedEOF // if sw ended its goroutine (runtime.Goexit)
	defer func() {
		if v := recover(); v != nil {
			end = &ErrBodyStreamWritePanic{cause: panicError(v)}
		}
		p.finish(end)
	}()
	w := bufio.NewWriterSize(p, streamWriterBuffer)
	sw(w)
	end = io.EOF
	if err := w.Flush(); err != nil {
		end = err
	}
}

// finish sets the error that Read returns after the data.
func (p *streamPipe) finish(end error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = end
	if p.isClosed {
		p.end = io.EOF // the error of sw only says that the reader is closed
	}
	p.releaseIfEmpty()
	p.changed.Broadcast()
}

// Write implements io.Writer for the StreamWriter. It waits for the reader when
// the pipe is full.
func (p *streamPipe) Write(data []byte) (written int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for written < len(data) {
		for !p.isClosed && p.unread() == maxStreamInFlight {
			p.changed.Wait()
		}
		if p.isClosed {
			return written, errStreamReaderClosed
		}
		n := min(len(data)-written, maxStreamInFlight-p.unread())
		p.store(data[written : written+n])
		written += n
		p.changed.Broadcast()
	}
	return written, nil
}

func (p *streamPipe) unread() int {
	if p.buffer == nil {
		return 0
	}
	return len(p.buffer.B) - p.start
}

// store appends data. The caller has checked that it fits into
// maxStreamInFlight.
func (p *streamPipe) store(data []byte) {
	need := p.unread() + len(data)
	switch b := p.buffer; {
	case b == nil:
		p.buffer = buf.Get(max(need, streamWriterBuffer))
	case len(b.B)+len(data) <= cap(b.B):
	case need <= cap(b.B):
		b.B = b.B[:copy(b.B, b.B[p.start:])]
		p.start = 0
	default:
		larger := buf.Get(min(max(need, 2*cap(b.B)), maxStreamInFlight))
		larger.B = append(larger.B, b.B[p.start:]...)
		b.Release()
		p.buffer, p.start = larger, 0
	}
	p.buffer.B = append(p.buffer.B, data...)
}

// Read implements io.Reader. It waits for data.
func (p *streamPipe) Read(dst []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.peek(dst)
	p.discard(n)
	return n, err
}

// WriteTo implements io.WriterTo. Bytes that w does not accept can still be
// read.
func (p *streamPipe) WriteTo(w io.Writer) (written int64, err error) {
	b := buf.Get(streamCopySize)
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
func (p *streamPipe) peek(dst []byte) (int, error) {
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
func (p *streamPipe) discard(n int) {
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
func (p *streamPipe) releaseIfEmpty() {
	if p.buffer != nil && p.unread() == 0 && (p.end != nil || p.isClosed) {
		p.buffer.Release()
		p.buffer, p.start = nil, 0
	}
}

// Close implements io.Closer for the reader. The StreamWriter's next write
// fails.
func (p *streamPipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isClosed = true
	p.releaseIfEmpty()
	p.changed.Broadcast()
	return nil
}

// writerStream is the body stream of SetBodyStreamWriter. The StreamWriter runs
// exactly once: in place, if the code that writes the message supports that; in
// a goroutine, when the stream is read; or with a closed reader, if nothing
// reads the body, so that it can clean up.
type writerStream struct {
	write StreamWriter
	pipe  *streamPipe
	ran   bool // the StreamWriter ran in place
}

// writeInPlace runs the StreamWriter.
func (s *writerStream) writeInPlace(w *bufio.Writer) {
	s.ran = true
	s.write(w)
}

// Read implements io.Reader.
func (s *writerStream) Read(p []byte) (int, error) {
	if s.ran {
		return 0, io.EOF
	}
	s.start()
	return s.pipe.Read(p)
}

func (s *writerStream) start() {
	if s.pipe == nil {
		s.pipe = newStreamPipe()
		go s.pipe.run(s.write)
	}
}

// Close implements io.Closer.
func (s *writerStream) Close() error {
	if s.ran {
		return nil
	}
	if s.pipe == nil {
		s.pipe = newStreamPipe()
		s.pipe.isClosed = true
		go s.pipe.run(s.write)
	}
	return s.pipe.Close()
}
