package sluice

import "time"

// HTTP2Config configures HTTP/2 (RFC 9113) of a Server. The zero value is HTTP/2 with the
// limits below.
//
// Limits of requests are those of HTTP/1.1: ReadBufferSize, MaxRequestBodySize,
// MaxBodyMemory, ReadTimeout, MinBodyRate. MaxRequestsPerConn, MaxKeepaliveDuration,
// DisableKeepalive and IdleTimeout end a connection with GOAWAY. Requests that the client
// sends before it has received that are still served.
type HTTP2Config struct {
	// Disable makes the Server speak HTTP/1.1 only. Without it, clients that send the
	// preface of HTTP/2 get HTTP/2 (prior knowledge, RFC 9113 section 3.3), and over TLS
	// those that choose "h2" by ALPN. ServeTLS offers "h2" unless TLSConfig.NextProtos is
	// set and lacks it. A NextProto("h2", ...) takes precedence.
	Disable bool

	// DisableWebSocket switches WebSocket over HTTP/2 (RFC 8441) off. Browsers then open a
	// connection of HTTP/1.1 for each WebSocket.
	//
	// Handlers see a WebSocket as the upgrade of HTTP/1.1 that it stands for: the method is
	// GET, and there are Connection, Upgrade and Sec-WebSocket-Key. A status of 101 with
	// RequestCtx.Hijack becomes 200, and the HijackHandler gets a net.Conn over the stream.
	// A 2xx status without Hijack, which would promise a tunnel, becomes 501.
	//
	// Requests for other protocols have the method CONNECT, a path, and
	// RequestHeader.ConnectProtocol; Hijack works with a 2xx status. With
	// DisableWebSocket, all of them are reset with PROTOCOL_ERROR.
	//
	// Such a stream counts against MaxConcurrentStreams until its connection is closed.
	// Browsers open all WebSockets of a site on one connection.
	DisableWebSocket bool

	// MaxConcurrentStreams limits the open requests of a connection; 250 if 0. A
	// request beyond it is refused with REFUSED_STREAM. A request that the client has
	// reset counts until its handler returns.
	MaxConcurrentStreams int

	// HeaderTableSize limits the memory, in bytes, in which a connection keeps fields
	// of earlier requests (RFC 7541 section 4.2); 4,096 if 0, and at most 65,536.
	HeaderTableSize int

	// StreamWindow limits how many bytes of a body a client may send beyond those that the
	// handler has read; 1 MiB if 0. The window of a request begins with 64 KiB. It grows to
	// what Content-Length declares when the body is read and has not arrived, else with the
	// speed of the client, as that of the connection does. ConnWindow limits the latter, and
	// what all of them grow by together; 16 MiB if 0. It does not limit how many requests
	// have 64 KiB: a handler that reads nothing must not stop the others. So the bodies of a
	// connection that are not read are at most ConnWindow, and 64 KiB for each of
	// MaxConcurrentStreams.
	StreamWindow, ConnWindow int

	// StallTimeout limits how long a client may take nothing of a response that waits
	// for it; then the stream is reset. 0 means WriteTimeout, or 30 seconds if that is
	// 0 too.
	StallTimeout time.Duration
}
