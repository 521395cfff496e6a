package sluice

import "errors"

// Errors of clients.
var (
	// ErrNoFreeConns is returned when MaxConns connections to the host are in use
	// and none became free within MaxConnWaitTimeout. Raise either of them.
	ErrNoFreeConns = errors.New("sluice: no free connections to the host")
	// ErrTLSHandshakeTimeout is returned when a TLS handshake took too long, or
	// when dialing and the handshake together took longer than WriteTimeout.
	ErrTLSHandshakeTimeout = errors.New("sluice: the TLS handshake took too long")
	// ErrTooManyRedirects is returned when there are more redirects than the call
	// may follow.
	ErrTooManyRedirects = errors.New("sluice: too many redirects")
	// ErrMissingLocation is returned for a redirect without a Location.
	ErrMissingLocation = errors.New("sluice: the redirect has no Location")
	// ErrRedirectBodyStream is returned for a redirect that requires the body
	// again after the body was a stream.
	ErrRedirectBodyStream = errors.New("sluice: the redirect asks for a body stream that was sent already")
	// ErrHostClientRedirectToDifferentScheme is returned by a HostClient when the
	// scheme of a request does not match IsTLS, for example after a redirect from
	// https to http.
	ErrHostClientRedirectToDifferentScheme = errors.New("sluice: the scheme of the request is not that of the HostClient")
	// ErrNoConnectProtocol is returned by ConnectProtocol if the server, or the field HTTP2
	// of the client, does not admit extended CONNECT.
	ErrNoConnectProtocol = errors.New("sluice: extended CONNECT is not possible with this server")
	// ErrConnPoolStrategyNotImpl is returned when ConnPoolStrategy is neither
	// FIFO nor LIFO.
	ErrConnPoolStrategyNotImpl = errors.New("sluice: unknown ConnPoolStrategy")

	errSpokenFirst       = errors.New("sluice: the server has sent something before the request")
	errRedirectScheme    = errors.New("sluice: the redirect's scheme is neither http nor https")
	errUnsupportedScheme = errors.New("sluice: the scheme of the request is neither http nor https")
)
