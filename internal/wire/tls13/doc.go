// Package tls13 implements the record layer of TLS 1.3 after the handshake (RFC 8446
// section 5) for both sides: it protects and opens records, answers and asks for new keys,
// and reads and writes alerts. Whoever makes the handshake gives it the two application
// traffic secrets.
//
// It is pure: bytes in, values out. A connection that has nothing to do is a State, which is
// plain data; a Layer is made of it when bytes arrive or leave.
package tls13
