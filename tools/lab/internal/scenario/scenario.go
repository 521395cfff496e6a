// Package scenario says what the lab can measure: compositions of a kind of
// server, a kind of client, a workload and a number of connections, some of
// which have names.
package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ServerKind is how a server has its connections served.
type ServerKind string

// The kinds of servers.
const (
	Goroutine  ServerKind = "goroutine"  // a goroutine for each connection
	Epoll      ServerKind = "epoll"      // event loops
	WorkerPool ServerKind = "workerpool" // event loops, and a bounded number of workers that run handlers
	Prefork    ServerKind = "prefork"    // a master and worker processes
)

// ServerKinds returns the kinds of servers.
func ServerKinds() []ServerKind { return []ServerKind{Goroutine, Epoll, WorkerPool, Prefork} }

// ClientKind is how a client holds its connections.
type ClientKind string

// The kinds of clients.
const (
	EpollClient     ClientKind = "epoll"
	GoroutineClient ClientKind = "goroutine"
)

// A Scenario is one composition.
type Scenario struct {
	Name     string     `json:"name"`
	Short    string     `json:"short,omitempty"`
	Summary  string     `json:"summary"`
	Protocol Protocol   `json:"protocol"`
	Server   ServerKind `json:"server"`
	Client   ClientKind `json:"client"`
	Workload Workload   `json:"workload"`
	Conns    int        `json:"connections"`
	// Loops is the number of event loops of all server processes together; 0:
	// one for each core.
	Loops int `json:"loops"`
	// Workers is the number of worker processes of Prefork, of goroutines that
	// run handlers otherwise; 0: see docs/one-million-connections.md.
	Workers int `json:"workers"`
	// ClientLoops is Loops for the clients.
	ClientLoops int `json:"client_loops"`
	// Shared has Prefork's workers share one inherited socket, instead of one
	// for each (SO_REUSEPORT).
	Shared bool `json:"shared_socket,omitempty"`
	// CompactTLS has servers of HTTPS keep idle connections in little memory
	// (sluice.Server.CompactTLS).
	CompactTLS bool `json:"compact_tls,omitempty"`
	// Pings is how long a WebSocket is silent before the server pings it; 0: it never does.
	Pings time.Duration `json:"pings,omitempty"`
	// Published is what the seed's authors measured; nil: nothing.
	Published *Published `json:"published,omitempty"`
}

// Published is a figure for a million connections on 40 logical cores and 32 GB.
type Published struct {
	Label   string        `json:"label"`
	PerSec  float64       `json:"per_second"`
	Latency time.Duration `json:"latency"`
}

// Find returns the scenario of a name: in full, its number, or the short form.
func Find(name string) (Scenario, error) {
	wanted := normalised(name)
	for _, s := range All() {
		number, _, _ := strings.Cut(s.Short, "-")
		if wanted != "" && (wanted == normalised(s.Name) || wanted == s.Short || wanted == number) {
			return s, nil
		}
	}
	return Scenario{}, fmt.Errorf("there is no scenario %q; \"sluice lab list\" has them", name)
}

// Group returns the scenarios of a name that stands for several: "seeds" are the
// thirteen programs of the seed, "all" those and the later ones. ok says whether
// name is one.
func Group(name string) (all []Scenario, ok bool) {
	switch normalised(name) {
	case "all":
		return All(), true
	case "seeds":
		return All()[:len(seeds())], true
	}
	return nil, false
}

func normalised(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// SetServer takes the kind of server from text: "epoll", or "http-epoll" and so
// on for another protocol. Without a protocol the scenario's stays.
func (s *Scenario) SetServer(text string) error {
	protocol, kind := s.Protocol, text
	for _, p := range Protocols() {
		if p == TCP {
			continue
		}
		if text == string(p) {
			protocol, kind = p, string(Epoll)
		} else if rest, ok := strings.CutPrefix(text, string(p)+"-"); ok {
			protocol, kind = p, rest
		}
	}
	if !slices.Contains(ServerKinds(), ServerKind(kind)) {
		return fmt.Errorf("there is no server %q: it is one of %v, or http-, https-, h2-, ws- or sse- and one of those", text, ServerKinds())
	}
	s.Server, s.Protocol = ServerKind(kind), protocol
	return nil
}

// ServerName is what SetServer takes.
func (s *Scenario) ServerName() string {
	if s.Protocol == TCP {
		return string(s.Server)
	}
	return string(s.Protocol) + "-" + string(s.Server)
}

// SetClient takes the kind of client from text.
func (s *Scenario) SetClient(text string) error {
	switch kind := ClientKind(text); kind {
	case EpollClient, GoroutineClient:
		s.Client = kind
		return nil
	}
	return fmt.Errorf("there is no client %q: it is %s or %s", text, EpollClient, GoroutineClient)
}

// What is far beyond any machine is refused before it is planned, which would take
// memory, too.
const (
	maxConns   = 100_000_000
	maxWorkers = 1_000_000 // and loops
)

// Check tells what is wrong with s.
func (s *Scenario) Check() error {
	switch {
	case s.Conns < 1:
		return fmt.Errorf("at least one connection is needed, not %d", s.Conns)
	case s.Conns > maxConns:
		return fmt.Errorf("%d connections are more than the lab plans for: at most %d", s.Conns, maxConns)
	case s.Loops < 0, s.Workers < 0, s.ClientLoops < 0:
		return fmt.Errorf("a number of loops or workers is negative")
	case max(s.Loops, s.Workers, s.ClientLoops) > maxWorkers:
		return fmt.Errorf("%d loops or workers are more than the lab plans for: at most %d", max(s.Loops, s.Workers, s.ClientLoops), maxWorkers)
	case s.Workload.Kind == Discard && slices.Contains([]Protocol{HTTP, HTTPS, HTTP2}, s.Protocol):
		return fmt.Errorf("a server of HTTP answers: it cannot discard")
	case s.CompactTLS && (s.Protocol != HTTPS || s.Server == Goroutine):
		return fmt.Errorf("compact TLS is for event loops and https: --server https-epoll, for example")
	case s.Protocol == SSE && s.Server == Prefork:
		return fmt.Errorf("an event is published in the process that has the stream: sse- is for one process on an address")
	case s.Shared && s.Server != Prefork:
		return fmt.Errorf("only prefork has sockets to share")
	}
	return nil
}
