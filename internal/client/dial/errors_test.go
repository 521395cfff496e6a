package dial

import (
	"errors"
	"testing"
)

func TestErrDialWithUpstream(t *testing.T) {
	if is, ok := ErrTimeout.(interface{ Timeout() bool }); !ok || !is.Timeout() || ErrTimeout.Error() != "sluice: dialing timed out" {
		t.Errorf("%v is no time-out", ErrTimeout)
	}
	err := WithUpstream(ErrTimeout, "h:1")
	var dialed *ErrDialWithUpstream
	if !errors.As(err, &dialed) || dialed.Upstream != "h:1" || !errors.Is(err, ErrTimeout) || err.Error() != "sluice: cannot connect to h:1: dialing timed out" {
		t.Errorf("%v", err)
	}
	if again := WithUpstream(err, "other:1"); again != err {
		t.Errorf("it is wrapped twice: %v", again)
	}
	for want, err := range map[string]*ErrDialWithUpstream{
		"sluice: cannot connect to h:1: unknown reason":    {Upstream: "h:1"},
		"sluice: cannot connect to name:1: unknown reason": {Upstream: "192.0.2.1:1", addr: "name:1"},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
