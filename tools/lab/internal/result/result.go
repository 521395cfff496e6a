// Package result is what a run of the lab has measured, and how it is shown: as
// JSON, as Markdown beside what the seed's authors published, and as plots.
package result

import (
	"math"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/plan"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	"github.com/sluicehttp/sluice/tools/lab/internal/system"
)

// A Result is what a run has measured.
type Result struct {
	Scenario scenario.Scenario `json:"scenario"`
	Header   Header            `json:"header"`
	Layout   Layout            `json:"layout"`
	Connect  Connect           `json:"connect"`
	Memory   Memory            `json:"memory"`
	Load     Load              `json:"load"`
	// Broadcasts are in their order.
	Broadcasts []Broadcast `json:"broadcasts,omitempty"`
	Pings      *Pings      `json:"pings,omitempty"` // nil: there were none
	Again      Again       `json:"again,omitzero"`
}

// A Header says where the figures come from.
type Header struct {
	Date       string `json:"date"`
	Machine    string `json:"machine"`
	Commit     string `json:"commit"`
	Command    string `json:"command"`
	Congestion string `json:"congestion_control"`
	// Buckets is the size of the kernel's table of TCP connections; 0: not known.
	Buckets    int     `json:"buckets,omitempty"`
	LoadBefore float64 `json:"load_before"` // load average of the last minute
}

// A Layout is how the scenario was run.
type Layout struct {
	Servers          int             `json:"servers"` // processes, without masters
	Clients          int             `json:"clients"`
	Addresses        int             `json:"addresses"`         // that servers listen on
	Loops            int             `json:"loops"`             // event loops of a server process that has some
	ClientLoops      int             `json:"client_loops"`      // of a client
	Processors       int             `json:"processors"`        // GOMAXPROCS of a server process
	ClientProcessors int             `json:"client_processors"` // of a client
	MaxWorkers       int             `json:"max_workers"`       // per loop; 0: no bound
	Environment      []string        `json:"environment,omitempty"`
	Obstacles        []plan.Obstacle `json:"obstacles,omitempty"`
}

// Connect is how connecting went.
type Connect struct {
	Made    int           `json:"made"`
	Failed  int           `json:"failed"`
	Elapsed time.Duration `json:"elapsed"`
	PerSec  float64       `json:"per_sec"`
	// What making them has cost; 0: not known.
	ServerCPU time.Duration `json:"server_cpu,omitempty"`
	ClientCPU time.Duration `json:"client_cpu,omitempty"`
}

// Memory is what connections cost. All bytes are sums over the processes of a
// kind.
type Memory struct {
	Before  MemorySample    `json:"before"` // without a connection
	After   MemorySample    `json:"after"`  // all connections, no request yet
	Worked  MemorySample    `json:"worked"` // all connections, after the load
	Idle    MemorySample    `json:"idle"`   // the same, at the end, after a garbage collection; zero: not known
	Growing []MemorySample  `json:"growing"`
	Caches  []system.Growth `json:"caches,omitempty"` // of the kernel, from Before to After
}

// A MemorySample is what was used at a time.
type MemorySample struct {
	Connections int           `json:"connections"`
	Server      ProcessMemory `json:"server"`
	Client      ProcessMemory `json:"client"`
	Slab        uint64        `json:"slab"`        // the kernel's, of the whole machine
	SockBuffer  uint64        `json:"sock_buffer"` // pages of socket buffers, the same
}

// ProcessMemory is what processes use.
type ProcessMemory struct {
	RSS          uint64 `json:"rss"`
	Anon         uint64 `json:"anon"`         // of RSS, without pages of files
	Proportional uint64 `json:"proportional"` // Pss: what is shared counts once; 0: not read
	Heap         uint64 `json:"heap"`         // objects, as Go's runtime counts
	Stacks       uint64 `json:"stacks"`
	Runtime      uint64 `json:"runtime"` // all that Go's runtime holds
	Goroutines   int    `json:"goroutines"`
}

// Load is how requests went.
type Load struct {
	Mode       control.Mode  `json:"mode"`
	Active     int           `json:"active"`
	InFlight   int           `json:"in_flight,omitempty"`
	AtOnce     int           `json:"at_once,omitempty"` // client processes that send at the same time
	Rate       float64       `json:"rate,omitempty"`    // that was wanted
	Completed  uint64        `json:"completed"`
	Served     uint64        `json:"served"` // as the servers count
	Elapsed    time.Duration `json:"elapsed"`
	PerSec     float64       `json:"per_sec"`
	Sweeps     int           `json:"sweeps,omitempty"` // the least of all clients
	Unanswered int           `json:"unanswered"`
	Lost       int           `json:"lost"` // connections that ended by themselves
	Backlog    int           `json:"backlog,omitempty"`
	FirstError string        `json:"first_error,omitempty"`
	ServerCPU  time.Duration `json:"server_cpu"`
	ClientCPU  time.Duration `json:"client_cpu"`
	MachineCPU time.Duration `json:"machine_cpu"` // of everything that ran, the kernel's own threads too
	Latency    Latency       `json:"latency"`
}

// A Broadcast is one message to all WebSockets. Times count from its order.
type Broadcast struct {
	Received   int           `json:"received"` // WebSockets that it has reached
	First      time.Duration `json:"first"`
	Last       time.Duration `json:"last"`
	ServerCPU  time.Duration `json:"server_cpu"`
	ClientCPU  time.Duration `json:"client_cpu"`
	MachineCPU time.Duration `json:"machine_cpu"`
	Latency    Latency       `json:"latency"`
}

// Pings is what the pings of silent WebSockets cost.
type Pings struct {
	After      time.Duration `json:"after"`   // so much silence, on average
	Elapsed    time.Duration `json:"elapsed"` // how long was measured
	Sent       uint64        `json:"sent"`
	MostPerSec uint64        `json:"most_per_sec"`
	ServerCPU  time.Duration `json:"server_cpu"`
	ClientCPU  time.Duration `json:"client_cpu"`
	MachineCPU time.Duration `json:"machine_cpu"`
	Memory     MemorySample  `json:"memory"` // at the end, without a garbage collection
}

// Again is how many connections were asked at the end, when they had been idle.
type Again struct {
	Asked    int `json:"asked"`
	Answered int `json:"answered"`
}

// Latency is a distribution.
type Latency struct {
	Mean  time.Duration `json:"mean"`
	P50   time.Duration `json:"p50"`
	P90   time.Duration `json:"p90"`
	P99   time.Duration `json:"p99"`
	P999  time.Duration `json:"p999"`
	Max   time.Duration `json:"max"`
	Curve []Point       `json:"curve,omitempty"`
	// Histogram is the whole of it, in microseconds: an HDR histogram in its
	// compressed form (V2), in base64. Results of older versions have none.
	Histogram string `json:"histogram,omitempty"`
}

// A Point is a percentile.
type Point struct {
	Percentile float64       `json:"percentile"`
	Latency    time.Duration `json:"latency"`
}

// Errors is what went wrong, in number.
func (r *Result) Errors() int {
	return r.Connect.Failed + r.Load.Lost + r.Load.Unanswered + r.missed() + r.Again.Asked - r.Again.Answered
}

// missed is how many messages of broadcasts have not arrived.
func (r *Result) missed() (n int) {
	for _, b := range r.Broadcasts {
		n += r.Connect.Made - b.Received
	}
	return n
}

// Answers reports whether the server answers.
func (r *Result) Answers() bool { return r.Scenario.Workload.Kind != scenario.Discard }

// hasLatency reports whether latencies were measured.
func (r *Result) hasLatency() bool { return r.Load.Latency.Max > 0 }

// PerConn returns bytes for each connection.
func (r *Result) PerConn(bytes uint64) float64 {
	if r.Memory.After.Connections == 0 {
		return 0
	}
	return float64(bytes) / float64(r.Memory.After.Connections)
}

// KernelPerConn returns what the kernel has taken for each connection, both ends:
// slabs and buffers. NaN: the machine's slabs have not grown, because something else
// has returned some meanwhile, so that it is not known.
func (r *Result) KernelPerConn() float64 {
	before, after := r.Memory.Before, r.Memory.After
	if after.Slab <= before.Slab {
		return math.NaN()
	}
	return r.PerConn(after.Slab - before.Slab + grown(before.SockBuffer, after.SockBuffer))
}

// grown returns after-before, or 0.
func grown(before, after uint64) uint64 {
	if after < before {
		return 0
	}
	return after - before
}

// PerRequest returns a processor time for each request.
func (r *Result) PerRequest(cpu time.Duration) time.Duration {
	n := max(r.Load.Completed, r.Load.Served)
	if n == 0 {
		return 0
	}
	return cpu / time.Duration(n)
}
