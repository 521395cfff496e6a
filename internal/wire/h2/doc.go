// Package h2 implements the HTTP/2 wire format (RFC 9113, RFC 7541, RFC 9218) for
// servers and clients: frames, field compression, the rules for field lists, settings,
// windows and priorities. It parses them from bytes and appends them to bytes. It does
// no I/O and uses no clock: times are passed in. Incomplete input is a normal result.
package h2
