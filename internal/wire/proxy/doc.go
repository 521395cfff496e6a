// Package proxy reads and writes the headers of the PROXY protocol, versions 1 and 2, with which
// a proxy tells the server whose connection it forwards. They stand before everything else,
// also before TLS. The specification is proxy-protocol.txt of HAProxy.
//
// It is pure: bytes in, values out.
package proxy
