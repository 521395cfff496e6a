package engine

import (
	"errors"
	"fmt"
)

// ErrGoexit is passed to Protocol.Closed when a handler called runtime.Goexit.
var ErrGoexit = errors.New("sluice: handler called runtime.Goexit")

// A PanicError is passed to Protocol.Closed when a call of the Protocol panicked,
// which its contract forbids.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value and the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("sluice: panic in a connection's protocol: %v\n%s", e.Value, e.Stack)
}
