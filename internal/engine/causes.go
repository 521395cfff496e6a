package engine

import (
	"errors"
	"fmt"
)

// ErrGoexit is what Protocol.Closed gets when a handler ended its goroutine.
var ErrGoexit = errors.New("sluice: handler called runtime.Goexit")

// A PanicError is what Protocol.Closed gets when a call of the protocol
// panicked, which is against its contract.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value and the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("sluice: panic in a connection's protocol: %v\n%s", e.Value, e.Stack)
}
