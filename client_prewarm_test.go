package sluice

import (
	"testing"
)

// Prewarm calls the hooks of the context, or else those of the client.
func TestPrewarmTrace(t *testing.T) {
	own, other := &ClientTrace{}, &ClientTrace{}
	c := &HostClient{Trace: own}
	if call := c.newCall(t.Context()); call.trace != own || call.Context != t.Context() {
		t.Errorf("%+v", call)
	}
	if call := c.newCall(WithClientTrace(t.Context(), other)); call.trace != other {
		t.Errorf("%+v", call)
	}
}
