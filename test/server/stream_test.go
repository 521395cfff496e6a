package server_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestNewStreamReader(t *testing.T) {
	large := strings.Repeat("0123456789", 100_000)
	for _, open := range []func(sluice.StreamWriter) io.ReadCloser{sluice.NewStreamReader, sluice.NewBoundedStreamReader} {
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
		r := sluice.NewStreamReader(func(w *bufio.Writer) {
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
		"panic": {func() { panic(boom) }, func(err error) bool {
			return errors.Is(err, boom) && errors.As(err, new(*sluice.ErrBodyStreamWritePanic))
		}},
		"exit": {runtime.Goexit, func(err error) bool { return err == io.ErrUnexpectedEOF }},
	} {
		r := sluice.NewStreamReader(func(w *bufio.Writer) {
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
		r := sluice.NewStreamReader(func(*bufio.Writer) { <-stop })
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

func BenchmarkStreamReader(b *testing.B) {
	block := bytes.Repeat([]byte("x"), 4096)
	r := sluice.NewStreamReader(func(w *bufio.Writer) {
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
		r := sluice.NewBoundedStreamReader(func(w *bufio.Writer) { w.WriteString(text) })
		var got strings.Builder
		left := 50_001
		n, err := r.(io.WriterTo).WriteTo(harness.WriterFunc(func(p []byte) (int, error) {
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
		if n, err := r.(io.WriterTo).WriteTo(harness.WriterFunc(func(p []byte) (int, error) { return 0, nil })); n != 0 || err != io.ErrShortWrite {
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
			r := sluice.NewStreamReader(func(w *bufio.Writer) {
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
