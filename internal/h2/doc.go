// Package h2 implements the HTTP/2 wire format (RFC 9113, RFC 9218) for servers and
// clients: frames, settings, windows and priorities. It parses frames from bytes and
// appends them to bytes. It does no I/O and uses no clock: times are passed in.
// Incomplete input is a normal result.
package h2
