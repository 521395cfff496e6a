// Package control is what the lab's coordinator and its processes say to each
// other: messages in JSON, one a line, over a unix socket whose end also ends
// the process.
package control

import (
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// Role is what a process does.
type Role string

// The roles.
const (
	Server Role = "server"
	Master Role = "master" // of prefork; its workers are Servers
	Client Role = "client"
)

// A Message is one line. Exactly one field is set.
type Message struct {
	Hello     *Hello     `json:"hello,omitempty"`     // process: first
	Config    *Config    `json:"config,omitempty"`    // coordinator: the answer to it
	Ready     *Ready     `json:"ready,omitempty"`     // process: it listens, or can connect
	Connect   *Connect   `json:"connect,omitempty"`   // coordinator, to a client
	Run       *Run       `json:"run,omitempty"`       // coordinator, to a client
	Turn      *Turn      `json:"turn,omitempty"`      // coordinator, to a client that takes turns
	Turned    *Turned    `json:"turned,omitempty"`    // client: the answer to it
	Done      *Done      `json:"done,omitempty"`      // client: the answer to it
	Broadcast *Broadcast `json:"broadcast,omitempty"` // coordinator, to a server of WebSockets
	Sample    *Sample    `json:"sample,omitempty"`    // coordinator: Stats are wanted now
	Stats     *Stats     `json:"stats,omitempty"`     // process: the answer, and now and then
	Stop      *Stop      `json:"stop,omitempty"`      // coordinator: end
	Failure   *Failure   `json:"failure,omitempty"`   // process: it ends, and why
}

// Hello says who connects.
type Hello struct {
	Role  Role `json:"role"`
	Index int  `json:"index"`
	PID   int  `json:"pid"`
}

// Config says what a process is to be.
type Config struct {
	Scenario scenario.Scenario `json:"scenario"`
	// Addr is where a server listens.
	Addr string `json:"addr,omitempty"`
	// Workers is the number of processes of a master.
	Workers int `json:"workers,omitempty"`
	// MaxWorkers bounds the goroutines that run handlers on a loop; 0: no bound.
	MaxWorkers int `json:"max_workers,omitempty"`
	// Loops is the number of event loops.
	Loops int `json:"loops"`
	// Processors is GOMAXPROCS of a master's workers.
	Processors int `json:"processors,omitempty"`
	// Every is how often Stats are sent without being asked for.
	Every time.Duration `json:"every"`
}

// Ready is empty.
type Ready struct{}

// Connect has a client make its connections.
type Connect struct {
	Targets []Target `json:"targets"`
	Dialers int      `json:"dialers"` // connections that are being made at the same time
}

// A Target is a server's address, and how many connections go there from one
// address of the client.
type Target struct {
	Source string `json:"source"`
	Addr   string `json:"addr"`
	Conns  int    `json:"conns"`
}

// Mode is what decides when a connection sends.
type Mode string

// The modes.
const (
	// Sweep has every connection send one request and wait for the answer; when
	// all have, it begins again.
	Sweep Mode = "sweep"
	// Loop has some connections send the next request when the answer has come.
	Loop Mode = "loop"
	// Rate sends at a rate, whatever comes back (an open loop).
	Rate Mode = "rate"
)

// Run has a client measure.
type Run struct {
	Mode     Mode          `json:"mode"`
	Start    time.Time     `json:"start"`
	Duration time.Duration `json:"duration"`
	InFlight int           `json:"in_flight,omitempty"` // Sweep: requests at the same time
	Active   int           `json:"active"`              // connections that send
	Turns    bool          `json:"turns,omitempty"`     // Sweep: one for each Turn, not for a time
	PerSec   float64       `json:"per_sec,omitempty"`   // Rate
}

// Turn has a client that takes turns sweep once, or be done.
type Turn struct {
	IsLast bool `json:"is_last,omitempty"` // there are no more, this one included
}

// Turned says that the sweep of a Turn is over.
type Turned struct{}

// Done is what a client has measured.
type Done struct {
	Completed uint64        `json:"completed"`
	Elapsed   time.Duration `json:"elapsed"`
	Sweeps    int           `json:"sweeps"`
	// Unanswered requests were out when the client stopped waiting.
	Unanswered int `json:"unanswered"`
	// Backlog is how many requests of Rate were not sent when time was up.
	Backlog int `json:"backlog"`
	// Latencies is an HDR histogram of microseconds, in its compressed form.
	Latencies []byte `json:"latencies"`
}

// Broadcast has a server send a message to all its WebSockets.
type Broadcast struct {
	At int64 `json:"at"` // Nanos of the order; another one for each broadcast
}

// Heard is what a client has received of the last broadcast.
type Heard struct {
	At    int64 `json:"at"`    // the order
	Count int   `json:"count"` // WebSockets that it has reached
	First int64 `json:"first"` // Nanos of the first one
	Last  int64 `json:"last"`
	// Latencies is an HDR histogram of microseconds since At, in its compressed form.
	Latencies []byte `json:"latencies"`
}

// Sample has a process send Stats.
type Sample struct {
	Collects bool `json:"collects,omitempty"` // after a garbage collection
}

// Stats are a process's counters.
type Stats struct {
	Connections int           `json:"connections"`
	Failed      int           `json:"failed,omitempty"` // connections that could not be made
	Lost        int           `json:"lost,omitempty"`   // connections that ended by themselves
	FirstError  string        `json:"first_error,omitempty"`
	Requests    uint64        `json:"requests"`
	Written     uint64        `json:"written,omitempty"` // bytes, of a server that sends pings
	CPU         time.Duration `json:"cpu"`
	Heap        uint64        `json:"heap"`    // objects, bytes
	Stacks      uint64        `json:"stacks"`  // bytes
	Runtime     uint64        `json:"runtime"` // bytes of the Go runtime in all that are not returned to the system
	Goroutines  int           `json:"goroutines"`
	// HeardTotal is how many messages of broadcasts a client has received.
	HeardTotal int    `json:"heard_total,omitempty"`
	Heard      *Heard `json:"heard,omitempty"` // with Asked; nil: there was no broadcast
	// Settled: a client has made all connections that it could.
	Settled bool `json:"settled,omitempty"`
	// Asked marks the answer to a Sample.
	Asked bool `json:"asked,omitempty"`
}

// Stop is empty.
type Stop struct{}

// Failure is why a process ends.
type Failure struct {
	Text string `json:"text"`
}
