package dial

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
)

// TestTimeoutOmitsItsOwnEffects: attempts that the time-out ended do not explain
// it.
func TestTimeoutOmitsItsOwnEffects(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call := &Call{
		Context: t.Context(), ctx: ctx, Addr: "host.test:80", stage: InConnect,
		failed: []error{&net.OpError{Op: "dial", Err: context.Canceled}, refused, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}},
	}
	got := call.explain(ctx.Err())
	if want := join(ErrTimeout, []error{refused}); !errors.Is(got, ErrTimeout) || got.Error() != want.Error() {
		t.Errorf("got %v, want %v", got, want)
	}
	if call.Upstream != "host.test:80" || call.Ended != NotEnded {
		t.Errorf("upstream %q, ended %d", call.Upstream, call.Ended)
	}
}
