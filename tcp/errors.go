package tcp

import "errors"

var (
	// ErrClosed is returned by methods that are called after the end of a
	// connection.
	ErrClosed = errors.New("sluice: connection is closed")
	// ErrFull is returned by Sender.TrySend when more than Server.MaxPending
	// bytes would wait to be sent.
	ErrFull = errors.New("sluice: too much is waiting to be sent")
	// ErrTooLarge ends a connection when Server.MaxBuffer bytes of input have
	// arrived and the handler has used none of them.
	ErrTooLarge = errors.New("sluice: message is larger than the server's MaxBuffer")
	// ErrPanicked ends a connection whose handler panicked. The log has the
	// panic and its stack.
	ErrPanicked = errors.New("sluice: handler panicked")
	// ErrRefused is returned by Server.ServeConn for a connection beyond
	// Server.MaxConns or Server.MaxConnsPerIP.
	ErrRefused = errors.New("sluice: too many connections")

	errNoHandler = errors.New("sluice: tcp.Server.Handler is nil")
	errNoTrusted = errors.New("sluice: ProxyProtocol is set, and ProxyTrusted is empty: name the networks of the proxies")
)
