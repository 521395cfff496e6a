package supervise

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

// TestResult: an error of another process has its text, the system's error and what failed on a socket.
func TestResult(t *testing.T) {
	listening := &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EACCES)}
	for _, c := range []struct {
		err   error
		errno syscall.Errno
		op    string
	}{
		{fmt.Errorf("the service: %w", listening), syscall.EACCES, "listen"},
		{&os.PathError{Op: "open", Path: "/key", Err: syscall.EACCES}, syscall.EACCES, ""},
		{errors.New("refused"), 0, ""},
	} {
		got := ParseResult(AppendResult(nil, c.err))
		var errno syscall.Errno
		errors.As(got, &errno)
		op := &net.OpError{}
		errors.As(got, &op)
		if got.Error() != c.err.Error() || errno != c.errno || op.Op != c.op {
			t.Errorf("%v: %v, %v of %q", c.err, got, errno, op.Op)
		}
	}
	if err := ParseResult(AppendResult(nil, nil)); err != nil {
		t.Error(err)
	}
}
