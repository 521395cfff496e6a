package proxy

import (
	"errors"
	"io"

	"github.com/sluicehttp/sluice"
)

// hookError is an error of Options.Request or Options.Response.
type hookError struct{ error }

// Unwrap returns the error of the hook.
func (e hookError) Unwrap() error { return e.error }

// fail answers in place of the upstream.
func (x *exchange) fail(err error) {
	if errors.Is(err, ErrAnswered) {
		return
	}
	status := x.statusOf(err)
	if status >= 500 {
		to := "no upstream"
		if x.pick.Member != nil {
			to = x.pick.Member.Client.name
		}
		x.proxy.logger(x.ctx).Printf("proxy: %s %q to %s: %d: %v", x.ctx.Method(), x.ctx.RequestURI(), to, status, err)
	}
	x.ctx.Error(sluice.StatusMessage(status), status) // err is not for clients
	if status == sluice.StatusServiceUnavailable {
		x.ctx.Response.Header.Set(sluice.HeaderRetryAfter, "1") // RFC 9110 section 10.2.3; a connection may be free soon
	}
}

// statusOf returns the status of a request that has failed with err.
func (x *exchange) statusOf(err error) int {
	ofClient := x.upload.failure()
	switch {
	case x.upload.isStalled.Load():
		return sluice.StatusGatewayTimeout
	case x.isEnded():
		return StatusClientClosed
	case errors.As(err, new(hookError)):
		return sluice.StatusBadGateway
	case errors.Is(ofClient, sluice.ErrBodyTooLarge), ofClient == nil && errors.Is(err, sluice.ErrBodyTooLarge) && x.pick.Member == nil:
		return sluice.StatusRequestEntityTooLarge
	case errors.Is(ofClient, io.ErrUnexpectedEOF), errors.Is(ofClient, sluice.ErrConnectionClosed):
		return StatusClientClosed
	case ofClient != nil && isTimeout(ofClient):
		return sluice.StatusRequestTimeout
	case ofClient != nil:
		return sluice.StatusBadRequest
	case errors.Is(err, sluice.ErrNoFreeConns):
		return sluice.StatusServiceUnavailable
	case isTimeout(err):
		return sluice.StatusGatewayTimeout
	}
	return sluice.StatusBadGateway
}
