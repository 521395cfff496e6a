// Package h3 implements the wire format of HTTP/3 (RFC 9114, RFC 9204, RFC 9218, RFC 9220) for
// servers and clients: frames of request streams and control streams, settings, and field
// compression without a dynamic table. It parses them from bytes and appends them to bytes. It
// does no I/O and uses no clock. Incomplete input is a normal result.
package h3
