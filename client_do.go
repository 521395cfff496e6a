package sluice

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/message"
)

// Do sends req and reads the response into resp, which may be nil. It is
// Client.Do, with the same errors, for a host that is known already. The error
// is ErrHostClientRedirectToDifferentScheme if the request's scheme does not
// match IsTLS.
func (c *HostClient) Do(req *Request, resp *Response) error {
	call := acquireCall()
	call.begin(req)
	defer call.end(req)
	return c.do(call, req, resp)
}

// do implements doer.
func (c *HostClient) do(call *clientCall, req *Request, resp *Response) error {
	c.pending.Add(1)
	defer c.pending.Add(-1)
	return c.send(call, req, resp)
}

// send is do for a request that is already counted as pending.
func (c *HostClient) send(call *clientCall, req *Request, resp *Response) error {
	if resp == nil {
		resp = AcquireResponse()
		defer ReleaseResponse(resp)
		call.wants = wantsNone
	}
	if req.GetTimeOut() > 0 {
		call.Allow(req.GetTimeOut())
	}
	if now := c.pool.Now(); c.lastUse.Load() != now {
		c.lastUse.Store(now)
	}
	if call.trace == nil {
		call.trace = c.Trace
	}
	err := c.attempt(call, req, resp)
	if outer := call.outer; outer != nil { // which does not repeat what has been repeated here
		outer.progress, outer.upstream = noConn, call.upstream
	}
	if err != nil {
		return doError(err)
	}
	return nil
}

// doError returns ErrConnectionClosed for an error that means io.EOF, and other
// errors unchanged.
func doError(err error) error {
	var ended message.KnownError
	switch {
	case err == io.EOF:
		return ErrConnectionClosed
	case errors.As(err, &ended) && ended.Known == io.EOF:
		return message.Known(ErrConnectionClosed, ended.Reason)
	}
	return err
}

// attempt sends the request until that succeeds or it must not be sent again.
func (c *HostClient) attempt(call *clientCall, req *Request, resp *Response) error {
	// An invalid request fails on every connection.
	if err := checkTarget(req, c.IsTLS); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		hasStream := req.streamed() != nil
		// A RoundTripper that does not call DefaultTransport may have sent the request.
		call.upstream, call.progress = "", hasSent
		retry, err := c.transmit(call, req, resp)
		if err == nil || hasStream && req.streamed() == nil || !c.repeats(call, req, attempt, retry, err) {
			return err
		}
		if trace := call.trace; trace != nil && trace.Retry != nil {
			trace.Retry(attempt, err)
		}
		call.isFresh = true
	}
}

// checkTarget returns an error if the URI cannot be requested, or not with TLS, or
// not without it.
func checkTarget(req *Request, isTLS bool) error {
	uri := req.URI()
	switch {
	case req.uriFailure() != nil:
		return req.uriFailure()
	case len(uri.Host()) == 0 && len(req.Header.Host()) == 0:
		return errMissingHost
	case uri.m.IsHTTPS() != isTLS:
		return ErrHostClientRedirectToDifferentScheme
	case len(uri.Username()) > 0 && !req.hasAuthorization():
		return req.checkCredentials()
	}
	return nil
}

// repeats decides whether a failed request is sent again.
func (c *HostClient) repeats(call *clientCall, req *Request, attempt int, retry bool, err error) bool {
	limit := positiveOr(c.MaxIdemponentCallAttempts, DefaultMaxIdemponentCallAttempts)
	if attempt >= limit || call.HasEnded() {
		return false
	}
	var reset bool
	isTimeout := errors.Is(err, ErrTimeout)
	switch {
	case c.RetryIfErrUpstream != nil:
		reset, retry = c.RetryIfErrUpstream(req, attempt, err, call.upstream)
	case c.RetryIfErr != nil:
		reset, retry = c.RetryIfErr(req, attempt, err)
	case !retry || isTimeout && call.err() != nil:
		return false
	case call.progress == noConn:
		return false // there is no connection to be had
	case call.progress == hasConn && !isTimeout:
		// The server has processed nothing, because it received nothing.
	case c.RetryIf != nil:
		retry = c.RetryIf(req)
	default:
		// A caller that waited for a whole time-out does not wait again.
		retry = !isTimeout && req.Header.isRepeatable()
	}
	if reset && retry {
		call.Restart()
	}
	return retry && call.err() == nil
}

// DoTimeout is Do with a time limit; see Client.DoTimeout.
func (c *HostClient) DoTimeout(req *Request, resp *Response, timeout time.Duration) error {
	return doTimeout(c, req, resp, timeout)
}

// DoDeadline is Do with a deadline; see Client.DoDeadline.
func (c *HostClient) DoDeadline(req *Request, resp *Response, deadline time.Time) error {
	return doTimeout(c, req, resp, time.Until(deadline))
}

// DoContext is Do with a context; see Client.DoContext.
func (c *HostClient) DoContext(ctx context.Context, req *Request, resp *Response) error {
	return doContext(ctx, c, req, resp)
}

// doer is implemented by Client, HostClient and PipelineClient.
type doer interface {
	// do is Do for a call that has begun.
	do(call *clientCall, req *Request, resp *Response) error
}

func doTimeout(c doer, req *Request, resp *Response, timeout time.Duration) error {
	if timeout <= 0 {
		return ErrTimeout
	}
	call := acquireCall()
	call.begin(req)
	defer call.end(req)
	call.Allow(timeout)
	return c.do(call, req, resp)
}

func doContext(ctx context.Context, c doer, req *Request, resp *Response) error {
	if err := clock.EndOf(ctx, PhaseWait); err != nil {
		return err
	}
	call := acquireCall()
	call.begin(req)
	defer call.end(req)
	call.Context = ctx
	if trace := traceOf(ctx); trace != nil {
		call.trace = trace
	}
	return c.do(call, req, resp)
}

// PendingRequests returns the number of requests whose calls have not returned.
func (c *HostClient) PendingRequests() int { return int(c.pending.Load()) }

// LastUseTime returns when the last request or Prewarm began. It may be up to
// half a second too early. If there was none, it returns the time when the
// process started.
func (c *HostClient) LastUseTime() time.Time { return clock.Time(c.lastUse.Load()) }

// clientCall is the state of a request while a client sends it: from begin until end.
// It is an argument of what sends. The Request refers to it for a RoundTripper, which
// calls DefaultTransport or another client.
type clientCall struct {
	clock.Bounds
	outer      *clientCall  // the call that it is part of, with the same Request; nil: none
	trace      *ClientTrace // of the context or the client; nil: none
	upstream   string       // address of the last attempt
	phase      Phase        // the present phase
	progress   progress     // of the last attempt
	wants      bodyWanted
	isFresh    bool // only a new connection is acceptable
	needsHTTP1 bool // the server has answered HTTP_1_1_REQUIRED
	isHeld     bool // a goroutine that sends may outlive the call
}

// progress says how far an attempt has come.
type progress uint8

const (
	noConn  progress = iota // it has no connection
	hasConn                 // it has written nothing
	hasSent
)

// begin begins a call for req. If a call for req is in progress, whose RoundTripper uses a
// client, it has the bounds of that.
func (c *clientCall) begin(req *Request) {
	if outer := req.call; outer != nil {
		*c = *outer
		c.outer = outer
	}
	req.call = c
}

// end ends the call. It must not be used afterwards.
func (c *clientCall) end(req *Request) {
	req.call = c.outer
	if !c.isHeld {
		releaseCall(c)
	}
}

// bodyWanted says what happens to the body of a response with StreamBody.
type bodyWanted uint8

const (
	wantsStream bodyWanted = iota // the caller reads it as a stream
	wantsFinal                    // as wantsStream, but the body of a redirect that is followed is dropped
	wantsBytes                    // as wantsFinal, but the attempt reads the body into memory
	wantsNone                     // the body is dropped
)

// drops reports whether the body of the response with head h is unwanted.
func (w bodyWanted) drops(h *ResponseHeader) bool {
	return w == wantsNone || w != wantsStream && isFollowed(h)
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
