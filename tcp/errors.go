package tcp

import "errors"

var (
	// ErrClosed is returned for what comes after the end of a connection.
	ErrClosed = errors.New("sluice: connection is closed")
	// ErrFull is returned by Sender.TrySend when more than Server.MaxPending
	// bytes would wait for the peer to read.
	ErrFull = errors.New("sluice: too much is waiting to be sent")
	// ErrTooLarge ends a connection that sent a message which the handler does
	// not use although Server.MaxBuffer bytes of it have come.
	ErrTooLarge = errors.New("sluice: message is larger than the server's MaxBuffer")
	// ErrPanicked ends a connection whose handler panicked. The log has the
	// panic and its stack.
	ErrPanicked = errors.New("sluice: handler panicked")
	// ErrRefused is returned by Server.ServeConn for a connection beyond
	// Server.MaxConns or Server.MaxConnsPerIP.
	ErrRefused = errors.New("sluice: too many connections")

	errNoHandler = errors.New("sluice: tcp.Server.Handler is nil")
)
