// Package compact is compact TLS: connections of TLS 1.3 that wait in little memory.
// crypto/tls makes the handshake, and then its Conn gives way to a record layer
// (internal/wire/tls13), whose state is plain data while the connection waits.
//
// A Listener has the configuration that tells the secrets of a handshake. A Handshake lies
// between crypto/tls and the socket until the handshake ends. A Conn is the connection from
// then on.
package compact
