package scenario

// Protocol is what is spoken.
type Protocol string

// The protocols.
const (
	TCP       Protocol = "tcp"   // messages of eight bytes
	HTTP      Protocol = "http"  // GET with keep-alive
	HTTPS     Protocol = "https" // the same over TLS 1.3
	HTTP2     Protocol = "h2"    // GET over HTTP/2 without TLS, one stream at a time
	WebSocket Protocol = "ws"    // an upgrade (RFC 6455), then binary messages of eight bytes
	SSE       Protocol = "sse"   // a stream of server-sent events for each connection, POST for each event
)

// Protocols returns the protocols.
func Protocols() []Protocol { return []Protocol{TCP, HTTP, HTTPS, HTTP2, WebSocket, SSE} }
