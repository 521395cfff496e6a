package sluice

import (
	"errors"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// clientCall is the state of a request while a client sends it: from beginCall until end.
// It is an argument of what sends. The Request refers to it for a RoundTripper, which
// calls DefaultTransport or another client.
type clientCall struct {
	clock.Bounds
	owner         *Request      // has the memory in calls, and not a copy of it by assignment
	outer         *clientCall   // the call that it is part of, with the same Request; nil: none. In Request.calls, the next one
	trace         *ClientTrace  // of the context or the client; nil: none
	upstream      string        // address of the last attempt
	phase         Phase         // the present phase
	progress      progress      // of the last attempt
	patience      time.Duration // with which the body waits for the status 100; 0: it does not
	wants         bodyWanted
	follows       bool // a redirect
	isFresh       bool // only a new connection is acceptable
	needsHTTP1    bool // the server has answered HTTP_1_1_REQUIRED
	isHeld        bool // a goroutine that sends may outlive the call
	sendsReceived bool // see HostClient.sendsReceived
	isProxied     bool // see proxied
}

// progress says how far an attempt has come.
type progress uint8

const (
	noConn  progress = iota // it has no connection
	hasConn                 // it has written nothing
	hasSent
)

// beginCall returns a call for req, which the caller ends. If a call for req is in progress,
// whose RoundTripper uses a client, it has the bounds of that.
func beginCall(req *Request) *clientCall {
	c := req.calls
	if c != nil && c.owner == req {
		req.calls, c.outer = c.outer, nil
	} else {
		c = &clientCall{owner: req}
	}
	if outer := req.call; outer != nil {
		*c = *outer
		c.owner, c.outer = req, outer
	}
	req.call = c
	return c
}

// end ends the call. It must not be used afterwards.
func (c *clientCall) end(req *Request) {
	req.call = c.outer
	if !c.isHeld {
		*c = clientCall{owner: req, outer: req.calls}
		req.calls = c
	}
}

// bodyWanted says what happens to the body of a response with StreamBody.
type bodyWanted uint8

const (
	wantsStream bodyWanted = iota // the caller reads it as a stream
	wantsBytes                    // the attempt reads it into memory
	wantsNone                     // it is dropped
)

// drops reports whether the body of the response with head h is unwanted.
func (c *clientCall) drops(h *ResponseHeader) bool {
	return c.wants == wantsNone || c.follows && isFollowed(h) && len(h.location()) > 0
}

// err returns the reason why the call must end, or nil if it may continue.
func (c *clientCall) err() error {
	if err := clock.EndOf(c.Context, c.phase); err != nil {
		return err
	}
	if c.IsOver() {
		return ErrTimeout
	}
	return nil
}

// lasts reports whether the call may go on for d.
func (c *clientCall) lasts(d time.Duration) bool {
	if c.Context != nil {
		if end, ok := c.Context.Deadline(); ok && time.Until(end) <= d {
			return false
		}
	}
	return c.Deadline == 0 || c.Deadline-clock.Nanos() > int64(d)
}

// pause waits for d, or until the call ends, and then returns the reason.
func (c *clientCall) pause(d time.Duration) error {
	c.phase = PhaseWait
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.Done():
	}
	return c.err()
}

// explain returns the error for a call that failed with err. If the call's
// context or time ended, the result says that instead of the consequence err.
func (c *clientCall) explain(err error) error {
	if err == nil {
		return nil
	}
	if ended := clock.EndOf(c.Context, c.phase); ended != nil {
		if phase := (*PhaseError)(nil); errors.As(err, &phase) {
			return phase // the dialer knows the phase more exactly
		}
		return ended
	}
	var dialed *ErrDialWithUpstream
	if clock.IsTimeout(err) && !errors.As(err, &dialed) || c.IsOver() {
		return ErrTimeout
	}
	return err
}

// Phase is a phase of sending a request. Its String returns the phase in words.
type Phase = clock.Phase

// The phases, in their order.
const (
	PhaseWait  = clock.PhaseWait  // waiting for a connection of the pool
	PhaseDNS   = clock.PhaseDNS   // looking up the host's addresses
	PhaseDial  = clock.PhaseDial  // connecting
	PhaseTLS   = clock.PhaseTLS   // the TLS handshake
	PhaseWrite = clock.PhaseWrite // writing the request
	PhaseRead  = clock.PhaseRead  // reading the response
)

// PhaseError is the error of a request whose context ended. Its field Phase is the phase
// in which the request was, and Err is the context's cause, which errors.Is finds in it.
// Its Timeout reports whether the context ended because its deadline passed.
type PhaseError = clock.PhaseError
