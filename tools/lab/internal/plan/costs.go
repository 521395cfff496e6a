package plan

import "github.com/sluicehttp/sluice/tools/lab/internal/scenario"

// Costs of a connection and of a process, bytes, for the question whether they
// fit into the memory. What a run really took is in its report. Those of TLS,
// WebSocket and server-sent events are from 10,000 connections in one server, after the load,
// those of compact TLS from 100,000 in six.
const (
	kernelCost          = 8500 // both ends on loopback, with the entries in event loops
	loopCost            = 200  // a server's end in an event loop
	goroutineCost       = 6000 // a server's end with a goroutine
	clientCost          = 1000 // a client's end in an event loop
	clientGoroutineCost = 7000
	processCost         = 12 << 20

	// crypto/tls has half of the first, the garbage of handshakes the rest.
	secretLoopCost      = 14_000
	secretCompactCost   = 600
	secretGoroutineCost = 35_000
	secretClientCost    = 400 // beside what a client's end has without TLS

	// A connection of HTTP/2 is packed two seconds after its last request. Until then,
	// and until the garbage is collected, it takes this.
	http2LoopCost      = 4000
	http2GoroutineCost = 20_000

	// A WebSocket has a Conn and a place in a group; the garbage of its upgrade is not
	// collected at once.
	webSocketLoopCost   = 400
	webSocketClientCost = 1800

	// A stream has a place in a Hub, and a topic with its name: as measured with a million.
	// The history of a server with goroutines is long, which is in their cost, too.
	streamLoopCost      = 600
	streamGoroutineCost = 19_000
	streamClientCost    = 1300
)

// costsOf returns what a connection takes at the server's end and at the
// client's, without the kernel.
func costsOf(s scenario.Scenario) (server, client int) {
	server, client = loopCost, clientCost
	goroutine := goroutineCost
	switch s.Protocol {
	case scenario.HTTPS:
		server, goroutine, client = secretLoopCost, secretGoroutineCost, clientCost+secretClientCost
		if s.CompactTLS {
			server = secretCompactCost
		}
	case scenario.HTTP2:
		server, goroutine = http2LoopCost, http2GoroutineCost
	case scenario.WebSocket:
		server, client = webSocketLoopCost, webSocketClientCost
	case scenario.SSE:
		server, client, goroutine = streamLoopCost, streamClientCost, streamGoroutineCost
	}
	if s.Server == scenario.Goroutine {
		server = goroutine
	}
	if s.Client == scenario.GoroutineClient {
		client = clientGoroutineCost
	}
	return server, client
}
