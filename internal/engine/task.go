package engine

import "runtime/debug"

// A Task is work of a Protocol that its methods leave to the engine's workers: the
// handler of one of several requests on a connection. A Task usually ends with a
// call of Prompter.Prompt, so that Prompted sends its result.
type Task interface {
	// Run does the work. It may block. It must not call the Conn, except through
	// its Prompter and its Workers.
	Run()
	// Lost is called once, instead of Run or after a part of it, if the work will
	// not be completed: with ErrShutdown if the engine has ended, with ErrGoexit if
	// Run called runtime.Goexit, and with a *PanicError if Run panicked. Lost must
	// not block.
	Lost(err error)
}

// Workers are the goroutines of an engine that run Tasks. All methods may be called
// on any goroutine, also after the Conn has ended.
type Workers interface {
	// Go queues t after the Tasks that were queued before, and returns at once. A
	// Task counts against MaxWorkers, counts as Active from Go to its end, and may
	// outlive the connection. Shutdown waits for it; when its context ends, Tasks
	// that have not begun are lost. After Shutdown, Go loses t on another
	// goroutine.
	Go(t Task)
	// Exempt exempts n more running Tasks from MaxWorkers, because they wait for
	// input of their own connection. A negative n ends that. The sum of all calls
	// must be 0 when these Tasks have ended.
	Exempt(n int)
}

// RunTask runs t on the calling goroutine, and calls Lost if Run does not return.
// After Goexit the goroutine ends. Engines use it.
func RunTask(t Task) {
	cause := error(ErrGoexit)
	defer func() {
		if v := recover(); v != nil {
			cause = &PanicError{Value: v, Stack: debug.Stack()}
		}
		if cause != nil {
			t.Lost(cause)
		}
	}()
	t.Run()
	cause = nil
}
