package dial

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/clock"
)

// TestTimeoutOmitsItsOwnEffects: attempts that the time-out ended do not explain
// it.
func TestTimeoutOmitsItsOwnEffects(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	call := &Call{
		Context: t.Context(), ctx: ctx, Addr: "host.test:80", phase: clock.PhaseDial,
		failed: []error{&net.OpError{Op: "dial", Err: context.Canceled}, refused, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}},
	}
	got := call.explain(ctx.Err())
	want := &ErrDialWithUpstream{"host.test:80", "host.test:80", join(ErrTimeout, []error{refused})}
	if !errors.Is(got, ErrTimeout) || got.Error() != want.Error() {
		t.Errorf("got %v, want %v", got, want)
	}
	if known := (*ErrDialWithUpstream)(nil); !errors.As(got, &known) || known.Upstream != want.Upstream {
		t.Errorf("%T", got)
	}
}
