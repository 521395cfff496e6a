package sluice

import (
	"context"
	"errors"

	"github.com/sluicehttp/sluice/internal/clock"
)

// clientCall is the state of a request while a client sends it. It is part of
// the Request, so that it reaches the RoundTripper.
type clientCall struct {
	clock.Bounds
	trace    *ClientTrace // of the context or the client; nil: none
	upstream string       // address of the last attempt
	phase    Phase        // the present phase
	isFresh  bool         // only a new connection is acceptable
	// offersHTTP2: a new connection may speak HTTP/2.
	offersHTTP2 bool
	needsHTTP1  bool // the server has answered HTTP_1_1_REQUIRED
	hasConn     bool // the last attempt got a connection
	hasSent     bool // bytes of the last attempt were written
	looksLater  bool // a turn looks whether the connection is quiet
	wants       bodyWanted
}

// bodyWanted says what happens to the body of a response with StreamBody.
type bodyWanted uint8

const (
	wantsStream bodyWanted = iota // the caller reads it as a stream
	wantsFinal                    // as wantsStream, but the body of a redirect is dropped, because the redirect is followed
	wantsBytes                    // as wantsFinal, but the attempt reads the body into memory
	wantsNone                     // the body is dropped
)

// drops reports whether the body of a response with the given status is
// unwanted.
func (w bodyWanted) drops(status int) bool {
	return w == wantsNone || w != wantsStream && StatusCodeIsRedirect(status)
}

// err returns the reason why the call must end, or nil if it may continue.
func (c *clientCall) err() error {
	if c.HasEnded() {
		return &PhaseError{Phase: c.phase, Err: context.Cause(c.Context)}
	}
	if c.IsOver() {
		return ErrTimeout
	}
	return nil
}

// explain returns the error for a call that failed with err. If the call's
// context or time ended, the result says that instead of the consequence err.
func (c *clientCall) explain(err error) error {
	if err == nil {
		return nil
	}
	if c.HasEnded() {
		if phase := (*PhaseError)(nil); errors.As(err, &phase) {
			return phase // the dialer knows the phase more exactly
		}
		return &PhaseError{Phase: c.phase, Err: context.Cause(c.Context)}
	}
	var dialed *ErrDialWithUpstream
	if clock.IsTimeout(err) && !errors.As(err, &dialed) || c.IsOver() {
		return ErrTimeout
	}
	return err
}

// Phase is a phase of sending a request.
type Phase uint8

// The phases, in their order.
const (
	PhaseWait  Phase = iota // waiting for a connection of the pool
	PhaseDNS                // looking up the host's addresses
	PhaseDial               // connecting
	PhaseTLS                // the TLS handshake
	PhaseWrite              // writing the request
	PhaseRead               // reading the response
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

// PhaseError is the error of a request whose context ended. It names the phase
// in which the request was; errors.Is finds the context's cause in it.
type PhaseError struct {
	Phase Phase // the phase when the context ended
	Err   error // the context's cause
}

// Error returns the phase and the cause.
func (e *PhaseError) Error() string { return "sluice: " + e.Phase.String() + ": " + e.Err.Error() }

// Unwrap returns the context's cause.
func (e *PhaseError) Unwrap() error { return e.Err }

// Timeout reports whether the context ended because its deadline passed.
func (e *PhaseError) Timeout() bool { return errors.Is(e.Err, context.DeadlineExceeded) }
