package http1

import (
	"bufio"
	"io"
	"sync"

	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// The pools of clients. Readers of all sizes share one pool, and so do writers
// and inputs, because other sizes than the default are rare.
var (
	readerPool sync.Pool // of *bufio.Reader
	writerPool sync.Pool // of *bufio.Writer
	inputPool  sync.Pool // of *input
)

// AcquireReader returns a pooled reader of r with a buffer of size bytes. The caller
// owns it until ReleaseReader.
func AcquireReader(r io.Reader, size int) *bufio.Reader {
	if br, ok := readerPool.Get().(*bufio.Reader); ok && br.Size() == size {
		br.Reset(r)
		return br
	}
	return bufio.NewReaderSize(r, size)
}

// ReleaseReader returns br to the pool.
func ReleaseReader(br *bufio.Reader) {
	br.Reset(nil)
	readerPool.Put(br)
}

// AcquireWriter returns a pooled writer to w with a buffer of size bytes. The caller
// owns it until ReleaseWriter.
func AcquireWriter(w io.Writer, size int) *bufio.Writer {
	if bw, ok := writerPool.Get().(*bufio.Writer); ok && bw.Size() == size {
		bw.Reset(w)
		return bw
	}
	return bufio.NewWriterSize(w, size)
}

// ReleaseWriter returns bw to the pool. Bytes that were not flushed are lost.
func ReleaseWriter(bw *bufio.Writer) {
	bw.Reset(nil)
	writerPool.Put(bw)
}

// An input is a reader whose Conn can be replaced without Reset, which
// would be the largest cost here. BenchmarkClientDoFastServer gains 4 %.
type input struct {
	bufio.Reader
	src    *Conn
	last   h1.LastHead // of any connection: inputs that are in use are also in the processor's cache
	failed bool        // src has returned an error, which the Reader may still hold
}

// inputSource is what the Reader of an input reads from.
type inputSource input

// Read implements io.Reader.
func (s *inputSource) Read(p []byte) (int, error) {
	n, err := s.src.Read(p)
	if err != nil {
		s.failed = true
	}
	return n, err
}

func acquireInput(src *Conn, size int) *input {
	if in, ok := inputPool.Get().(*input); ok {
		if in.Size() == size {
			in.src = src
			return in
		}
	}
	in := &input{src: src}
	in.Reader = *bufio.NewReaderSize((*inputSource)(in), size)
	return in
}

func releaseInput(in *input) {
	if in.failed || in.Buffered() > 0 {
		in.Reset((*inputSource)(in))
		in.failed = false
	}
	in.src = nil
	inputPool.Put(in)
}
