// Package http3 serves HTTP/3 (RFC 9114) for a sluice.Server, over QUIC (RFC 9000).
package http3
