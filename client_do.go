package sluice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/message"
)

// Do sends req and reads the response into resp, which may be nil. It is
// Client.Do, with the same errors, for a host that is known already. The error
// is ErrHostClientRedirectToDifferentScheme if the request's scheme does not
// match IsTLS.
func (c *HostClient) Do(req *Request, resp *Response) error {
	call := beginCall(req)
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
		return c.sendUnwanted(call, req)
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
	var err error
	if c.DecodeResponseBody || resp.DecodeBody {
		err = c.attemptDecoded(call, req, resp)
	} else {
		err = c.attempt(call, req, resp)
	}
	if outer := call.outer; outer != nil { // which does not repeat what has been repeated here
		outer.progress, outer.upstream = noConn, call.upstream
	}
	if err != nil {
		return doError(err)
	}
	return nil
}

// sendUnwanted is send for a caller that does not want the response.
func (c *HostClient) sendUnwanted(call *clientCall, req *Request) error {
	resp := AcquireResponse()
	defer ReleaseResponse(resp)
	call.wants = wantsNone
	return c.send(call, req, resp)
}

// attemptDecoded is attempt, and decodes the response if it may be encoded.
func (c *HostClient) attemptDecoded(call *clientCall, req *Request, resp *Response) error {
	if !c.askForCodings(call, req, resp) {
		return c.attempt(call, req, resp)
	}
	defer req.Header.Del(HeaderAcceptEncoding) // the caller's request has none
	if err := c.attempt(call, req, resp); err != nil || call.drops(&resp.Header) {
		return err
	}
	return resp.decode(c.MaxResponseBodySize)
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
	if call.sendsReceived = c.sendsReceived(req); !call.sendsReceived {
		if err := checkTarget(req, c.IsTLS); err != nil {
			return err
		}
	}
	for attempt := 1; ; attempt++ {
		hasStream := req.streamed() != nil
		// A RoundTripper that does not call DefaultTransport may have sent the request.
		call.upstream, call.progress = "", hasSent
		var retry bool
		var err error
		rt := c.Transport
		if rt == nil {
			rt = DefaultTransport
		}
		if _, isOwn := rt.(*transport); !isOwn {
			if call.isProxied { // resp has the head of an earlier one, of another client
				resp.Header.Reset()
			}
			retry, err = rt.RoundTrip(c, req, resp)
		} else if retry, err = c.roundTrip(call, req, resp); err != nil {
			err = call.explain(err)
		}
		switch {
		case err == nil && c.RetryStatus == nil, hasStream && req.streamed() == nil:
			return err
		case err == nil:
			pause, isBusy := c.pauseOf(call, req, resp, attempt)
			if !isBusy {
				return nil
			}
			err = fmt.Errorf("sluice: the status is %d", resp.StatusCode())
			_ = resp.CloseBodyStream()
			if ended := call.pause(pause); ended != nil {
				return ended
			}
		case !c.repeats(call, req, attempt, retry, err):
			return err
		default:
			call.isFresh = true
		}
		if trace := call.trace; trace != nil && trace.Retry != nil {
			trace.Retry(attempt, err)
		}
	}
}

// sendsReceived reports whether the target and the Host of req are sent as a parser has checked
// them, so that no URI is needed. Package proxy sends such requests.
func (c *HostClient) sendsReceived(req *Request) bool {
	return c.DisablePathNormalizing && c.HTTP2 == HTTP2Off && c.Transport == nil && !c.IsTLS &&
		req.UseHostHeader && !req.hasURI && req.connection != overHTTPS && req.Header.m.HasOrigin()
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
		return uri.m.CheckCredentials()
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

const (
	defaultMinStatusPause = 100 * time.Millisecond
	defaultMaxStatusPause = 10 * time.Second
	defaultStatusBudget   = 10
	// oneRepeat and mostOverdraw are in hundredths of repetitions.
	oneRepeat    = 100
	mostOverdraw = 10 * oneRepeat
)

// pauseOf decides by the status of resp whether the request is sent again, and after which pause.
func (c *HostClient) pauseOf(call *clientCall, req *Request, resp *Response, attempt int) (pause time.Duration, isBusy bool) {
	r := c.RetryStatus
	if owed := c.overdraw.Load(); owed > 0 && attempt == 1 {
		c.overdraw.CompareAndSwap(owed, max(owed-int64(positiveOr(r.Budget, defaultStatusBudget)), 0))
	}
	if status := resp.StatusCode(); status != StatusTooManyRequests && status != StatusServiceUnavailable ||
		attempt >= positiveOr(c.MaxIdemponentCallAttempts, DefaultMaxIdemponentCallAttempts) {
		return 0, false
	}
	if c.RetryIf != nil && !c.RetryIf(req) || c.RetryIf == nil && !req.Header.isRepeatable() {
		return 0, false
	}
	longest := positiveOr(r.MaxPause, defaultMaxStatusPause)
	pause = min(positiveOr(r.MinPause, defaultMinStatusPause), longest)
	for range attempt - 1 {
		pause = min(2*pause, longest)
	}
	pause -= rand.N(pause/2 + 1)
	after := time.Duration(0)
	if lines := resp.Header.head().AppendAny(nil, HeaderRetryAfter); len(lines) > 0 { // the client may keep names as they were sent
		after = retryAfter(lines[0])
	}
	if after > longest-pause || !call.lasts(pause+after) {
		return 0, false
	}
	if c.overdraw.Add(oneRepeat) > mostOverdraw {
		c.overdraw.Add(-oneRepeat)
		return 0, false
	}
	return pause + after, true
}

// retryAfter returns the time that a Retry-After asks for, 0 for what is none.
func retryAfter(value []byte) time.Duration {
	if seconds, err := strconv.ParseUint(string(value), 10, 63); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, math.MaxInt64/uint64(time.Second))) * time.Second
	}
	if date, err := ParseHTTPDate(value); err == nil {
		return max(time.Until(date), 0)
	}
	return 0
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

// proxied is the context of a request in package proxy. Its call has no ClientTrace, reads a body that
// has arrived with the head into memory, is not counted by the client, and sets no addresses.
type proxied interface{ Proxied() }

// doer is implemented by Client, HostClient and PipelineClient.
type doer interface {
	// do is Do for a call that has begun.
	do(call *clientCall, req *Request, resp *Response) error
}

func doTimeout(c doer, req *Request, resp *Response, timeout time.Duration) error {
	if timeout <= 0 {
		return ErrTimeout
	}
	call := beginCall(req)
	defer call.end(req)
	call.Allow(timeout)
	return c.do(call, req, resp)
}

func doContext(ctx context.Context, c doer, req *Request, resp *Response) error {
	if ctx.Err() != nil {
		return clock.EndOf(ctx, PhaseWait)
	}
	call := beginCall(req)
	defer call.end(req)
	call.Context = ctx
	if _, call.isProxied = ctx.(proxied); !call.isProxied {
		if trace := traceOf(ctx); trace != nil {
			call.trace = trace
		}
	}
	if hc, ok := c.(*HostClient); ok && call.isProxied {
		return hc.send(call, req, resp)
	}
	return c.do(call, req, resp)
}

// PendingRequests returns the number of requests whose calls have not returned.
func (c *HostClient) PendingRequests() int { return int(c.pending.Load()) }

// LastUseTime returns when the last request or Prewarm began. It may be up to
// half a second too early. If there was none, it returns the time when the
// process started.
func (c *HostClient) LastUseTime() time.Time { return clock.Time(c.lastUse.Load()) }
