package stackless

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// queuePerWorker is how many calls may wait for each goroutine.
const queuePerWorker = 2048

// NewFunc returns a function that runs f on one of its own GOMAXPROCS
// goroutines, waits for it, and returns true. If 2048 calls per goroutine are
// waiting already, it does not call f and immediately returns false: the caller
// decides how to handle the overload.
//
// If f panics, the function panics in its caller, with f's stack in the message.
// If f calls runtime.Goexit, the function returns as if f had returned. f must
// not call the function: if every goroutine waits for such a call, none of them
// can continue.
//
// The goroutines end when there are no calls, so the function needs no closing.
// It may be called concurrently. NewFunc panics if f is nil.
func NewFunc(f func(ctx any)) func(ctx any) bool {
	if f == nil {
		panic("stackless: the function is nil")
	}
	return newRunner(f).run
}

// runner runs the calls of one function. A goroutine occupies a slot of workers
// until it ends.
type runner struct {
	f       func(ctx any)
	calls   chan *call
	workers chan struct{}
}

// newRunner returns a runner of the usual size.
func newRunner(f func(ctx any)) *runner {
	workers := runtime.GOMAXPROCS(0)
	return newSizedRunner(f, workers, workers*queuePerWorker)
}

func newSizedRunner(f func(ctx any), workers, waiting int) *runner {
	return &runner{f: f, calls: make(chan *call, waiting), workers: make(chan struct{}, workers)}
}

// call is one call. Its caller owns it; while it runs, a worker does. done has
// room for one value, so that workers never wait for callers.
type call struct {
	ctx      any
	done     chan struct{}
	panicked error
}

// run implements the function that NewFunc returns.
func (r *runner) run(ctx any) bool {
	c := acquireCall()
	c.ctx = ctx
	select {
	case r.calls <- c:
	default:
		releaseCall(c)
		return false
	}
	r.ensureWorker()
	<-c.done
	panicked := c.panicked
	releaseCall(c)
	if panicked != nil {
		panic(panicked)
	}
	return true
}

// ensureWorker starts a goroutine if there is a free slot.
func (r *runner) ensureWorker() {
	select {
	case r.workers <- struct{}{}:
		go r.work()
	default:
	}
}

// work runs calls until there are none. It checks for calls again after the
// release of its slot: a call that arrived between the last check and the
// release found no free slot.
func (r *runner) work() {
	isDone := false
	defer func() {
		<-r.workers
		// After a Goexit another worker must run the waiting calls.
		if !isDone || len(r.calls) > 0 {
			r.ensureWorker()
		}
	}()
	for {
		select {
		case c := <-r.calls:
			r.serve(c)
		default:
			isDone = true
			return
		}
	}
}

// serve runs one call and wakes its caller, whether f returns, panics or calls
// Goexit.
func (r *runner) serve(c *call) {
	defer func() {
		if v := recover(); v != nil {
			c.panicked = newPanicError(v)
		}
		c.done <- struct{}{}
	}()
	r.f(c.ctx)
}

// panicError is what a caller panics with.
type panicError struct {
	value any
	stack []byte
}

func newPanicError(v any) error { return &panicError{value: v, stack: debug.Stack()} }

// Error implements error.
func (e *panicError) Error() string {
	return fmt.Sprintf("stackless: panic: %v\n\n%s", e.value, e.stack)
}

// Unwrap returns the value of the panic if that is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}
