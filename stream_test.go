package sluice

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

func TestNewStreamReader(t *testing.T) {
	large := strings.Repeat("0123456789", 100_000)
	for _, open := range []func(StreamWriter) io.ReadCloser{NewStreamReader, NewBoundedStreamReader} {
		r := open(func(w *bufio.Writer) {
			w.WriteString("head")
			w.Flush()
			w.WriteString(large)
		})
		got, err := io.ReadAll(r)
		if err != nil || string(got) != "head"+large {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFlushReachesAWaitingReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan bool)
		r := NewStreamReader(func(w *bufio.Writer) {
			w.WriteString("first")
			w.Flush()
			<-goOn
			w.WriteString("second")
		})
		p := make([]byte, 100)
		n, err := r.Read(p)
		if string(p[:n]) != "first" || err != nil {
			t.Errorf("%q, %v", p[:n], err)
		}
		close(goOn)
		rest, err := io.ReadAll(r)
		if string(rest) != "second" || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
	})
}

func TestHowAStreamWriterEnds(t *testing.T) {
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		end   func()
		check func(err error) bool
	}{
		"return": {func() {}, func(err error) bool { return err == nil }},
		"panic":  {func() { panic(boom) }, func(err error) bool { return errors.Is(err, boom) && errors.As(err, new(*ErrBodyStreamWritePanic)) }},
		"exit":   {runtime.Goexit, func(err error) bool { return err == io.ErrUnexpectedEOF }},
	} {
		r := NewStreamReader(func(w *bufio.Writer) {
			w.WriteString("data")
			w.Flush()
			test.end()
		})
		got, err := io.ReadAll(r)
		if string(got) != "data" || !test.check(err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		r.Close()
	}
}

func TestCloseWakesAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan bool)
		r := NewStreamReader(func(*bufio.Writer) { <-stop })
		done := make(chan error)
		go func() {
			_, err := r.Read(make([]byte, 1))
			done <- err
		}()
		synctest.Wait()
		r.Close()
		if err := <-done; err != io.EOF {
			t.Errorf("err = %v", err)
		}
		close(stop)
	})
}

// A StreamWriter owns things that it has to clean up: it runs exactly once,
// whatever becomes of the message.
func TestAStreamWriterRunsOnce(t *testing.T) {
	for name, use := range map[string]func(r *Response){
		"written":    func(r *Response) { _ = r.String() },
		"skipped":    func(r *Response) { r.SkipBody = true; _ = r.String() },
		"forbidden":  func(r *Response) { r.SetStatusCode(304); _ = r.String() },
		"buffered":   func(r *Response) { r.Body() },
		"dropped":    func(r *Response) { r.Reset() },
		"replaced":   func(r *Response) { r.SetBodyString("x") },
		"read":       func(r *Response) { io.ReadAll(r.BodyStream()); r.Reset() },
		"read a bit": func(r *Response) { r.BodyStream().Read(make([]byte, 1)); r.Reset() },
		"in place":   func(r *Response) { r.streamWriter(bufio.NewWriter(io.Discard)); r.CloseBodyStream() },
		"and read then": func(r *Response) {
			r.streamWriter(bufio.NewWriter(io.Discard))
			if n, err := r.stream.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Error(n, err)
			}
			r.Reset()
		},
		"taken, unread": func(r *Response) { r.BodyStream(); r.Reset() },
	} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			r := new(Response)
			r.SetBodyStreamWriter(func(w *bufio.Writer) {
				runs++
				w.WriteString("data")
			})
			use(r)
			synctest.Wait()
			if runs != 1 {
				t.Errorf("%s: ran %d times", name, runs)
			}
		})
	}
}

func TestSetBodyStreamWriterIsWritten(t *testing.T) {
	var r Response
	r.SetBodyStreamWriter(func(w *bufio.Writer) {
		w.WriteString("some ")
		w.WriteString("data")
	})
	if got := r.String(); !strings.HasSuffix(got, "\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nsome data\r\n0\r\n\r\n") {
		t.Errorf("%q", got)
	}
	if r.streamWriter != nil {
		t.Error("streamWriter is left")
	}
	var q Request
	q.SetBodyString("old")
	r.SetBodyString("old")
	q.Header.SetContentLength(3)
	r.Header.SetContentLength(3)
	q.SetBodyStreamWriter(func(w *bufio.Writer) { w.WriteString("data") })
	r.SetBodyStreamWriter(func(w *bufio.Writer) {})
	if q.Header.ContentLength() != -1 || r.Header.ContentLength() != -1 || len(q.bodyBytes())+len(r.bodyBytes()) > 0 {
		t.Errorf("lengths %d and %d, %q and %q are left", q.Header.ContentLength(), r.Header.ContentLength(), q.bodyBytes(), r.bodyBytes())
	}
	if r := q.BodyStream(); r == nil || q.streamWriter != nil {
		t.Error("a stream that was handed out may still be written in place")
	}
	if got := string(q.Body()); got != "data" {
		t.Errorf("%q", got)
	}
}

func BenchmarkStreamReader(b *testing.B) {
	block := bytes.Repeat([]byte("x"), 4096)
	r := NewStreamReader(func(w *bufio.Writer) {
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	defer r.Close()
	p := make([]byte, 32<<10)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := io.ReadFull(r, p); err != nil {
			b.Fatal(err)
		}
	}
}

// TestStreamReaderWritesItself: what the writer does not take is still there.
func TestStreamReaderWritesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		text := strings.Repeat("0123456789", 10_000)
		r := NewBoundedStreamReader(func(w *bufio.Writer) { w.WriteString(text) })
		var got strings.Builder
		left := 50_001
		n, err := r.(io.WriterTo).WriteTo(writerFunc(func(p []byte) (int, error) {
			if len(p) <= left {
				left -= len(p)
				return got.Write(p)
			}
			p = p[:left]
			left = 0
			got.Write(p)
			return len(p), boom
		}))
		if n != 50_001 || err != boom {
			t.Errorf("%d bytes, %v", n, err)
		}
		if n, err := r.(io.WriterTo).WriteTo(writerFunc(func(p []byte) (int, error) { return 0, nil })); n != 0 || err != io.ErrShortWrite {
			t.Errorf("a writer that takes nothing: %d, %v", n, err)
		}
		if n, err := r.(io.WriterTo).WriteTo(&got); n != 49_999 || err != nil {
			t.Errorf("the rest: %d, %v", n, err)
		}
		if got.String() != text {
			t.Errorf("%d bytes", got.Len())
		}
		r.Close()
	})
}

// TestStreamReaderAfterClose: what was buffered can be read, then there is
// io.EOF, however the StreamWriter ends.
func TestStreamReaderAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(w *bufio.Writer){
			"returns": func(*bufio.Writer) {},
			"writes":  func(w *bufio.Writer) { w.WriteString("more"); w.Flush() },
			"panics":  func(*bufio.Writer) { panic("boom") },
		} {
			closed := make(chan struct{})
			r := NewStreamReader(func(w *bufio.Writer) {
				w.WriteString("buffered")
				w.Flush()
				<-closed
				end(w)
			})
			synctest.Wait()
			r.Close()
			close(closed)
			synctest.Wait()
			if got, err := io.ReadAll(r); string(got) != "buffered" || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	})
}
