package sluice

import "errors"

// Errors of clients.
var (
	// ErrNoFreeConns is returned when as many connections to the host as may be
	// are in use, and waiting for one is not allowed or took too long. Raise
	// MaxConns or MaxConnWaitTimeout.
	ErrNoFreeConns = errors.New("sluice: no free connections to the host")
	// ErrTLSHandshakeTimeout is returned when a TLS handshake took too long, or
	// dialing and the handshake together longer than WriteTimeout.
	ErrTLSHandshakeTimeout = errors.New("sluice: the TLS handshake took too long")
	// ErrTooManyRedirects is returned when there are more redirects than are to
	// be followed.
	ErrTooManyRedirects = errors.New("sluice: too many redirects")
	// ErrMissingLocation is returned for a redirect without a Location.
	ErrMissingLocation = errors.New("sluice: the redirect has no Location")
	// ErrRedirectBodyStream is returned for a redirect that asks for the body
	// once more when that was a stream.
	ErrRedirectBodyStream = errors.New("sluice: the redirect asks for a body stream that was sent already")
	// ErrHostClientRedirectToDifferentScheme is returned by a HostClient when a
	// request's scheme is not the one that it serves, as after a redirect from
	// https to http.
	ErrHostClientRedirectToDifferentScheme = errors.New("sluice: the scheme of the request is not that of the HostClient")
	// ErrConnPoolStrategyNotImpl is returned when ConnPoolStrategy is neither
	// FIFO nor LIFO.
	ErrConnPoolStrategyNotImpl = errors.New("sluice: unknown ConnPoolStrategy")

	errSpokenFirst       = errors.New("sluice: the server has sent something before the request")
	errRedirectScheme    = errors.New("sluice: the redirect's scheme is neither http nor https")
	errUnsupportedScheme = errors.New("sluice: the scheme of the request is neither http nor https")
)
