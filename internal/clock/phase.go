package clock

import (
	"context"
	"errors"
)

// Phase is a phase of sending a request.
type Phase uint8

// The phases, in their order. The root package describes them.
const (
	PhaseWait Phase = iota
	PhaseDNS
	PhaseDial
	PhaseTLS
	PhaseWrite
	PhaseRead
)

var phaseTexts = [...]string{
	PhaseWait: "waiting for a connection", PhaseDNS: "looking up the host", PhaseDial: "dialing",
	PhaseTLS: "TLS handshake", PhaseWrite: "writing the request", PhaseRead: "reading the response",
}

// String returns the phase in words.
func (p Phase) String() string {
	if int(p) < len(phaseTexts) {
		return phaseTexts[p]
	}
	return "unknown phase"
}

// PhaseError is the error of a request whose context ended.
type PhaseError struct {
	Phase Phase // the phase when the context ended
	Err   error // the context's cause
}

// EndOf returns a *PhaseError if ctx, which may be nil, has ended, otherwise nil.
func EndOf(ctx context.Context, phase Phase) error {
	if ctx == nil || ctx.Err() == nil {
		return nil
	}
	return &PhaseError{Phase: phase, Err: context.Cause(ctx)}
}

// Error returns the phase and the cause.
func (e *PhaseError) Error() string { return "sluice: " + e.Phase.String() + ": " + e.Err.Error() }

// Unwrap returns the context's cause.
func (e *PhaseError) Unwrap() error { return e.Err }

// Timeout reports whether the context ended because its deadline passed.
func (e *PhaseError) Timeout() bool { return errors.Is(e.Err, context.DeadlineExceeded) }
