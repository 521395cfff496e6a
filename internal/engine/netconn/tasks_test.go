package netconn

import (
	"runtime"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A funcTask calls itself.
type funcTask func()

func (f funcTask) Run()     { f() }
func (funcTask) Lost(error) {}

// A bounded number of goroutines waits for Tasks, and Shutdown ends them.
func TestTaskGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	e := New(engine.Options{}).(*driver)
	p := &e.tasks
	waiting := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.waiting
	}
	for range 3 {
		var begun sync.WaitGroup
		hold := make(chan struct{})
		for range 2 * maxWaiting {
			begun.Add(1)
			p.Go(funcTask(func() { begun.Done(); <-hold }))
		}
		begun.Wait()
		if n := waiting(); n != 0 {
			t.Errorf("%d goroutines wait while new ones are started", n)
		}
		close(hold)
		for p.count() > 0 {
			runtime.Gosched()
		}
		if n := waiting(); n != maxWaiting {
			t.Errorf("%d goroutines wait, want %d", n, maxWaiting)
		}
	}
	p.Go(funcTask(runtime.Goexit))
	for p.count() > 0 {
		runtime.Gosched()
	}
	if n := waiting(); n != maxWaiting-1 {
		t.Errorf("%d goroutines wait after Goexit, want %d", n, maxWaiting-1)
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for runtime.NumGoroutine() > before {
		runtime.Gosched()
	}
}
