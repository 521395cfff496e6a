package engine

import (
	"errors"
	"net"
	"runtime"
	"testing"
	"time"
)

type fakeTask struct {
	run  func()
	lost []error
}

func (f *fakeTask) Run()           { f.run() }
func (f *fakeTask) Lost(err error) { f.lost = append(f.lost, err) }

// TestRunTask: a Task that does not return is lost, and why.
func TestRunTask(t *testing.T) {
	run := func(f func()) []error {
		task, done := &fakeTask{run: f}, make(chan bool)
		go func() {
			defer close(done)
			RunTask(task)
		}()
		<-done
		return task.lost
	}
	if lost := run(func() {}); lost != nil {
		t.Errorf("lost: %v", lost)
	}
	if lost := run(runtime.Goexit); len(lost) != 1 || lost[0] != ErrGoexit {
		t.Errorf("Goexit: %v", lost)
	}
	var failed *PanicError
	if lost := run(func() { panic("oh") }); len(lost) != 1 || !errors.As(lost[0], &failed) || failed.Value != "oh" {
		t.Errorf("panic: %v", lost)
	}
}

func TestNextPiece(t *testing.T) {
	v := net.Buffers{[]byte("ab"), []byte("cd"), []byte("efghijk"), []byte("l")}
	large := v[2]
	for i, want := range []string{"abcd", "efghijk", "l", ""} {
		got := NextPiece(nil, &v, 5)
		if string(got) != want {
			t.Errorf("piece %d is %q, want %q", i, got, want)
		}
		if i == 1 && &got[0] != &large[0] {
			t.Error("a large buffer was copied")
		}
	}
}

func TestOptionsWithDefaults(t *testing.T) {
	if got := (Options{}).WithDefaults(); got != (Options{ReadBufferSize: 16 << 10, FlushSize: 32 << 10, MaxHandshakes: 4096, LingerTimeout: time.Second, MaxIdleWorkerTime: 10 * time.Second}) {
		t.Errorf("%+v", got)
	}
	set := Options{ReadBufferSize: 1, FlushSize: 2, MaxHandshakes: 6, LingerTimeout: 3, MaxIdleWorkerTime: 4, Loops: 5}
	if got := set.WithDefaults(); got != set {
		t.Errorf("%+v", got)
	}
}
