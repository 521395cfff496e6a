package sluice

import (
	"bufio"
	"io"
	"sync"

	"github.com/sluicehttp/sluice/internal/message"
)

// The pools of clients. Readers of all sizes share one pool, and so do writers,
// because other sizes than the default are rare.
var (
	clientReaderPool sync.Pool // of *bufio.Reader
	clientWriterPool sync.Pool // of *bufio.Writer
)

func acquireClientReader(r io.Reader, size int) *bufio.Reader {
	if br, ok := clientReaderPool.Get().(*bufio.Reader); ok && br.Size() == size {
		br.Reset(r)
		return br
	}
	return bufio.NewReaderSize(r, size)
}

func releaseClientReader(br *bufio.Reader) {
	br.Reset(nil)
	clientReaderPool.Put(br)
}

// clientInputPool holds *clientInput of all sizes.
var clientInputPool sync.Pool

// A clientInput is a reader whose source can be replaced without Reset, which
// would be the largest cost here. BenchmarkClientDoFastServer gains 4 %.
type clientInput struct {
	bufio.Reader
	src    io.Reader
	failed bool // src has returned an error, which the Reader may still hold
}

// inputSource is what the Reader of a clientInput reads from.
type inputSource clientInput

// Read implements io.Reader.
func (s *inputSource) Read(p []byte) (int, error) {
	n, err := s.src.Read(p)
	if err != nil {
		s.failed = true
	}
	return n, err
}

func acquireClientInput(src io.Reader, size int) *clientInput {
	if in, ok := clientInputPool.Get().(*clientInput); ok {
		if in.Size() == size {
			in.src = src
			return in
		}
	}
	in := &clientInput{src: src}
	in.Reader = *bufio.NewReaderSize((*inputSource)(in), size)
	return in
}

func releaseClientInput(in *clientInput) {
	if in.failed || in.Buffered() > 0 {
		in.Reset((*inputSource)(in))
		in.failed = false
	}
	in.src = nil
	clientInputPool.Put(in)
}

func acquireClientWriter(w io.Writer, size int) *bufio.Writer {
	if bw, ok := clientWriterPool.Get().(*bufio.Writer); ok && bw.Size() == size {
		bw.Reset(w)
		return bw
	}
	return bufio.NewWriterSize(w, size)
}

func releaseClientWriter(bw *bufio.Writer) {
	bw.Reset(nil)
	clientWriterPool.Put(bw)
}

// fetchingPool holds *fetching.
var fetchingPool = sync.Pool{New: func() any { return new(fetching) }}

func acquireFetching() *fetching { return fetchingPool.Get().(*fetching) }

func releaseFetching(f *fetching) {
	f.req.recycle()
	f.resp.recycle()
	fetchingPool.Put(f)
}

// http2CallPool holds *http2Call.
var http2CallPool = sync.Pool{New: func() any { return new(http2Call) }}

func acquireHTTP2Call() *http2Call { return http2CallPool.Get().(*http2Call) }

// releaseHTTP2Call forgets the request, and keeps the memory.
func releaseHTTP2Call(x *http2Call) {
	s := &x.stream
	s.Request, s.Content, s.Source, s.Context = nil, nil, nil, nil
	s.Length, s.HasTrailer, s.IsHead = 0, false, false
	x.c, x.member, x.req, x.resp, x.content, x.late = nil, nil, nil, nil, nil, nil
	x.framing, x.source = message.Framing{}, http2Source{}
	x.form, x.unwanted = noFinalHead, 0
	x.trailers.Reset()
	http2CallPool.Put(x)
}
