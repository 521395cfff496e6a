package scenario

import "time"

const (
	defaultConns = 10_000
	fewConns     = 100
)

// All returns the scenarios that have names: the thirteen programs of
// 1m-go-tcp-server, the first row of its table, and the kinds of servers over
// HTTP, TLS, HTTP/2, WebSocket and server-sent events.
func All() []Scenario {
	all := append(seeds(), later()...)
	for i := range all {
		s := &all[i]
		if s.Protocol == "" {
			s.Protocol = TCP
		}
		if s.Client == "" {
			s.Client = EpollClient
		}
		if s.Workload.Kind == "" {
			s.Workload.Kind = Echo
		}
		if s.Conns == 0 {
			s.Conns = defaultConns
		}
	}
	return all
}

func seeds() []Scenario {
	discard, sleep, pow := Workload{Kind: Discard}, Workload{Kind: IO, Sleep: 10 * time.Millisecond}, Workload{Kind: Pow, Bits: 12}
	return []Scenario{
		{Name: "1_simple_tcp_server", Short: "1-simple", Summary: "a goroutine for each connection; nothing is answered",
			Server: Goroutine, Workload: discard},
		{Name: "2_epoll_server", Short: "2-epoll", Summary: "one event loop; nothing is answered",
			Server: Epoll, Loops: 1, Workload: discard},
		{Name: "3_epoll_server_throughputs", Short: "3-throughputs", Summary: "one event loop that echoes; the client has a goroutine for each connection",
			Server: Epoll, Loops: 1, Client: GoroutineClient},
		{Name: "4_epoll_client", Short: "4-epoll-client", Summary: "one event loop on both sides",
			Server: Epoll, Loops: 1, ClientLoops: 1, Published: published("single epoll (both server and client)", 42495, 23*time.Second)},
		{Name: "5_multiple_client", Short: "5-multiple-client", Summary: "one event loop; the client has several",
			Server: Epoll, Loops: 1, Published: published("single epoll server", 42402, 800*time.Millisecond)},
		{Name: "6_multiple_server", Short: "6-multiple-server", Summary: "several event loops",
			Server: Epoll, Published: published("multiple epoll server", 197814, 900*time.Millisecond)},
		{Name: "7_server_prefork", Short: "7-prefork", Summary: "several processes on one address",
			Server: Prefork, Published: published("prefork", 444415, 1500*time.Millisecond)},
		{Name: "8_server_workerpool", Short: "8-workerpool", Summary: "several event loops, and a bounded number of workers",
			Server: WorkerPool, Published: published("workerpool", 190022, 300*time.Millisecond)},
		{Name: "9_few_clients_high_throughputs", Short: "9-few-clients", Summary: "a goroutine for each of few connections",
			Server: Goroutine, Conns: fewConns},
		{Name: "10_io_intensive_epoll_server", Short: "10-io-epoll", Summary: "event loops whose handlers wait for 10 ms",
			Server: Epoll, Workload: sleep},
		{Name: "11_io_intensive_goroutine", Short: "11-io-goroutine", Summary: "goroutines that wait for 10 ms",
			Server: Goroutine, Workload: sleep},
		{Name: "12_cpu_intensive_epoll_server", Short: "12-cpu-epoll", Summary: "event loops whose handlers compute 4,096 hashes on average",
			Server: Epoll, Workload: pow},
		{Name: "13_cpu_intensive_goroutine", Short: "13-cpu-goroutine", Summary: "goroutines that compute 4,096 hashes on average",
			Server: Goroutine, Workload: pow},
	}
}

// later are those beyond the seed's programs.
func later() []Scenario {
	return []Scenario{
		{Name: "goroutine-per-conn", Summary: "a goroutine for each connection that echoes: the first row of the seed's table",
			Server: Goroutine, Published: published("goroutine-per-conn", 202830, 4900*time.Millisecond)},
		{Name: "http-epoll", Summary: "HTTP with keep-alive, event loops", Protocol: HTTP, Server: Epoll},
		{Name: "http-goroutine", Summary: "HTTP with keep-alive, a goroutine for each connection", Protocol: HTTP, Server: Goroutine},
		{Name: "http-prefork", Summary: "HTTP with keep-alive, several processes on one address", Protocol: HTTP, Server: Prefork},
		{Name: "http-workerpool", Summary: "HTTP with keep-alive, event loops and a bounded number of workers", Protocol: HTTP, Server: WorkerPool},
		{Name: "https-epoll", Summary: "HTTP with keep-alive over TLS 1.3, event loops", Protocol: HTTPS, Server: Epoll},
		{Name: "https-compact", Summary: "HTTP with keep-alive over TLS 1.3, event loops; idle connections keep no state of crypto/tls", Protocol: HTTPS, Server: Epoll, CompactTLS: true},
		{Name: "https-goroutine", Summary: "HTTP with keep-alive over TLS 1.3, a goroutine for each connection", Protocol: HTTPS, Server: Goroutine},
		{Name: "h2-epoll", Summary: "HTTP/2 with one stream at a time, event loops", Protocol: HTTP2, Server: Epoll},
		{Name: "h2-goroutine", Summary: "HTTP/2 with one stream at a time, a goroutine for each connection", Protocol: HTTP2, Server: Goroutine},
		{Name: "ws-epoll", Summary: "WebSocket, event loops", Protocol: WebSocket, Server: Epoll},
		{Name: "ws-goroutine", Summary: "WebSocket, a goroutine for each connection", Protocol: WebSocket, Server: Goroutine},
		{Name: "sse-epoll", Summary: "server-sent events, event loops", Protocol: SSE, Server: Epoll},
		{Name: "sse-goroutine", Summary: "server-sent events, a goroutine for each connection", Protocol: SSE, Server: Goroutine},
	}
}

func published(label string, perSec float64, latency time.Duration) *Published {
	return &Published{Label: label, PerSec: perSec, Latency: latency}
}
