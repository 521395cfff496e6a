package stackless

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const patience = 20 * time.Second

// eventually polls for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("not in time: ", what)
		}
	}
}

func TestFuncRunsEveryCall(t *testing.T) {
	var sum, atOnce, most atomic.Int64
	f := NewFunc(func(ctx any) {
		n := atOnce.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		sum.Add(int64(*ctx.(*int)))
		runtime.Gosched()
		atOnce.Add(-1)
	})
	const callers, calls = 50, 100
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := range calls {
				if !f(&i) {
					t.Error("a call was refused")
				}
			}
		})
	}
	wg.Wait()
	if want := int64(callers * calls * (calls - 1) / 2); sum.Load() != want {
		t.Errorf("sum is %d, want %d", sum.Load(), want)
	}
	if most.Load() > int64(runtime.GOMAXPROCS(0)) {
		t.Errorf("%d calls ran at once", most.Load())
	}
}

func TestFuncRefusesOverload(t *testing.T) {
	started, proceed := make(chan struct{}), make(chan struct{})
	r := newSizedRunner(func(any) { started <- struct{}{}; <-proceed }, 1, 2)
	var wg sync.WaitGroup
	call := func() {
		wg.Go(func() {
			if !r.run(nil) {
				t.Error("a call was refused")
			}
		})
	}
	call()
	<-started
	call()
	call()
	eventually(t, "two calls wait", func() bool { return len(r.calls) == 2 })
	if r.run(nil) {
		t.Error("a call too many was run")
	}
	close(proceed)
	<-started
	<-started
	wg.Wait()
	eventually(t, "no goroutine is left", func() bool { return len(r.workers) == 0 })
	go func() { <-started }()
	if !r.run(nil) {
		t.Error("refused after the overload")
	}
}

// recovered returns what f panics with.
func recovered(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func TestPanicIsTheCallers(t *testing.T) {
	r := newSizedRunner(func(ctx any) {
		if ctx != nil {
			panic(ctx)
		}
	}, 1, 10)
	for range 3 {
		err, ok := recovered(func() { r.run(io.ErrNoProgress) }).(error)
		if !ok || !errors.Is(err, io.ErrNoProgress) || !strings.Contains(err.Error(), "stackless_test.go") {
			t.Errorf("panicked with %v", err)
		}
		err, ok = recovered(func() { r.run("text") }).(error)
		if !ok || errors.Unwrap(err) != nil || !strings.Contains(err.Error(), "text") {
			t.Errorf("panicked with %v", err)
		}
		if !r.run(nil) {
			t.Error("refused after a panic")
		}
	}
	if recovered(func() { NewFunc(nil) }) == nil {
		t.Error("NewFunc(nil) does not panic")
	}
	eventually(t, "no goroutine is left", func() bool { return len(r.workers) == 0 })
}

func TestGoexitEndsTheCallOnly(t *testing.T) {
	r := newSizedRunner(func(any) { runtime.Goexit() }, 1, 100)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if !r.run(nil) {
				t.Error("a call was refused")
			}
		})
	}
	wg.Wait()
	eventually(t, "no goroutine is left", func() bool { return len(r.workers) == 0 })
}

func newGzip(w io.Writer) Writer { return gzip.NewWriter(w) }

func unzipped(t *testing.T, p []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWriter(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var first, second bytes.Buffer
			w := NewWriter(&first, newGzip)
			for i, out := range []*bytes.Buffer{&first, &second} {
				if i > 0 {
					io.WriteString(w, "lost")
					w.Reset(out)
				}
				n, err := io.WriteString(w, "hello")
				if n != 5 || err != nil {
					t.Errorf("Write = %d, %v", n, err)
				}
				if err := w.Flush(); err != nil || out.Len() == 0 {
					t.Errorf("Flush: %v, %d bytes", err, out.Len())
				}
				io.WriteString(w, strings.Repeat("x", 100_000))
				if err := w.Close(); err != nil {
					t.Error(err)
				}
			}
			for _, out := range []*bytes.Buffer{&first, &second} {
				if got := unzipped(t, out.Bytes()); got != "hello"+strings.Repeat("x", 100_000) {
					t.Errorf("%d bytes", len(got))
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "no goroutine is left", func() bool { return len(writers.workers) == 0 })
}

// failing is a destination that takes one byte.
type failing struct{ err error }

func (f failing) Write(p []byte) (int, error) { return min(1, len(p)), f.err }

func TestWriterReturnsErrors(t *testing.T) {
	boom := errors.New("boom")
	for given, want := range map[error]error{boom: boom, nil: io.ErrShortWrite} {
		w := NewWriter(failing{given}, newGzip)
		io.WriteString(w, "hello")
		if err := w.Close(); err != want {
			t.Errorf("Close = %v, want %v", err, want)
		}
	}
	var out bytes.Buffer
	w := NewWriter(&out, newGzip)
	w.Close()
	if _, err := io.WriteString(w, "late"); err == nil {
		t.Error("the writer's own error is lost")
	}
}

// TestWriterOverloaded has all goroutines and places of the shared set taken.
func TestWriterOverloaded(t *testing.T) {
	shared := writers
	defer func() { writers = shared }()
	started, proceed := make(chan struct{}), make(chan struct{})
	writers = newSizedRunner(func(any) { started <- struct{}{}; <-proceed }, 1, 1)
	var wg sync.WaitGroup
	wg.Go(func() { writers.run(nil) })
	<-started
	wg.Go(func() { writers.run(nil) })
	eventually(t, "a call waits", func() bool { return len(writers.calls) == 1 })
	var out bytes.Buffer
	w := NewWriter(io.Discard, newGzip)
	if n, err := w.Write([]byte("x")); n != 0 || err != ErrOverloaded {
		t.Errorf("Write = %d, %v", n, err)
	}
	w.Reset(&out)
	close(proceed)
	<-started
	wg.Wait()
	writers = shared
	io.WriteString(w, "after")
	if err := w.Close(); err != nil || unzipped(t, out.Bytes()) != "after" {
		t.Errorf("Close = %v, %q", err, out.Bytes())
	}
}

// panicking is a Writer that panics.
type panicking struct{ Writer }

func (panicking) Write([]byte) (int, error) { panic("boom") }

func TestWriterPanic(t *testing.T) {
	w := NewWriter(io.Discard, func(io.Writer) Writer { return panicking{} })
	if v := recovered(func() { w.Write(nil) }); v == nil || !strings.Contains(v.(error).Error(), "boom") {
		t.Errorf("panicked with %v", v)
	}
}

func BenchmarkFunc(b *testing.B) {
	f := NewFunc(func(any) {})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			f(nil)
		}
	})
}
