//go:build linux && (amd64 || arm64)

package core

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

// An inputTask is what a doer begins for an input.
type inputTask struct {
	run   func(input string)
	input string
	lost  *atomic.Int32
}

func (t *inputTask) Run()       { t.run(t.input) }
func (t *inputTask) Lost(error) { t.lost.Add(1) }

// The loop's goroutine runs the tasks of the connections that it serves. They may block, and end it.
func TestLoopRunsTasks(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(freed chan struct{})
		lost int32
	}{
		{"waits", func(freed chan struct{}) { <-freed }, 0},
		{"exits", func(chan struct{}) { runtime.Goexit() }, 1},
		{"panics", func(chan struct{}) { panic("as it should") }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var loop atomic.Pointer[loop]
			var byLoop, ended, lost atomic.Int32
			freed := make(chan struct{})
			run := func(input string) {
				if input == "end" {
					ended.Add(1)
					test.end(freed)
				}
				if l := loop.Load(); l != nil && l.direct.turns.Load()%2 == 1 && !l.queue.hasBusy() {
					byLoop.Add(1)
				}
			}
			d, dialled := directDriver(t, &doer{newEcho(), func(c engine.Conn, input string) {
				c.Workers().Go(&inputTask{run, input, &lost})
			}})
			l := d.loops[0]
			loop.Store(l)
			first, second := dialled(), dialled()
			eventually(t, "the loop runs tasks", func() bool { ask(t, first, "again"); return byLoop.Load() > 2 })
			ask(t, second, "hello")
			ask(t, first, "end")
			eventually(t, "the task has begun", func() bool { return ended.Load() == 1 })
			ask(t, second, "meanwhile")
			ask(t, first, "meanwhile")
			close(freed)
			eventually(t, "all tasks have ended", func() bool { return l.queue.countTasks() == 0 && l.queue.isAtRest() })
			if n := lost.Load(); n != test.lost {
				t.Errorf("%d tasks were lost, want %d", n, test.lost)
			}
		})
	}
}

// hasBusy reports whether a worker is not idle.
func (q *runQueue) hasBusy() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.workers > q.parked
}
