package plan

import (
	"fmt"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// A Plan is how a scenario is run.
type Plan struct {
	Scenario scenario.Scenario `json:"scenario"`
	// Servers and Clients are empty where there are more connections than any
	// number of processes could hold.
	Servers []ServerGroup `json:"servers"`
	Clients []Client      `json:"clients"`
	// Loops is the number of event loops of each server process, ClientLoops that
	// of each client.
	Loops       int `json:"loops"`
	ClientLoops int `json:"client_loops"`
	// Processors is GOMAXPROCS of each server process, ClientProcessors that of
	// each client.
	Processors       int `json:"processors"`
	ClientProcessors int `json:"client_processors"`
	// MaxWorkers bounds the goroutines that run handlers on each loop; 0: no
	// bound.
	MaxWorkers int `json:"max_workers"`
	// AtOnce is how many client processes send at the same time in a sweep. They
	// take turns.
	AtOnce   int `json:"at_once"`
	InFlight int `json:"in_flight"` // of a sweep, all clients together
	// Memory is what the run will take, by estimate, in bytes.
	Memory    uint64     `json:"memory"`
	Obstacles []Obstacle `json:"obstacles,omitempty"`
}

// A ServerGroup is the processes behind one address.
type ServerGroup struct {
	Addr    string `json:"addr"`
	Conns   int    `json:"conns"`
	Workers int    `json:"workers"` // processes below a master; 0: the server is one process
}

// A Client is one client process.
type Client struct {
	Conns   int              `json:"conns"`
	Targets []control.Target `json:"targets"`
}

// preforkFill is how much of a worker's descriptors are planned for: the kernel
// spreads connections by chance, and the fullest worker has more than its share.
const preforkFill = 0.95

const (
	defaultWorkersPerLoop = 64
	// clientsPerCore is how many client processes send at the same time in a
	// sweep: one has something to do while another waits.
	clientsPerCore = 2
	// inFlightEach is how many requests of a sweep a process has out, or waiting
	// to be served, at a time: enough that processes switch seldom.
	inFlightEach = 256
)

// Make plans s within l. Nobody listens on port, on any address: server processes
// have addresses of their own.
func Make(s scenario.Scenario, l Limits, port int) Plan {
	p := Plan{Scenario: s}
	p.layOut(l, port)
	p.SetAtOnce(clientsPerCore*l.Cores, l)
	return p
}

// layOut plans processes. As many as there is no room for would take memory.
func (p *Plan) layOut(l Limits, port int) {
	if len(tooMany(l, p.Scenario.Conns)) == 0 {
		p.planServers(l, port)
		p.planClients(l)
	}
	p.Memory = p.memory()
}

// SetAtOnce has another number of clients send at the same time than Make planned
// for the same limits.
func (p *Plan) SetAtOnce(clients int, l Limits) {
	p.AtOnce = min(clients, len(p.Clients))
	processes := p.AtOnce
	for _, s := range p.Servers {
		processes = max(processes, s.Workers) // each client has connections to all of them
	}
	p.InFlight = min(max(processes*inFlightEach, 1), p.Scenario.Conns, l.InFlight())
	p.Obstacles = append(tooMany(l, p.Scenario.Conns), p.obstacles(l)...)
}

// planServers plans processes that are alike, as many as descriptors call for.
func (p *Plan) planServers(l Limits, port int) {
	s := p.Scenario
	if s.Server == scenario.Prefork {
		p.planPrefork(l, port)
		return
	}
	n := divided(s.Conns, l.filesFor())
	for i := range n {
		p.Servers = append(p.Servers, ServerGroup{
			Addr:  fmt.Sprintf("%s:%d", serverAddress(i), port),
			Conns: Share(s.Conns, n, i),
		})
	}
	p.Loops, p.Processors = loopsOf(s.Loops, n, l.Cores)
	if s.Server == scenario.Goroutine {
		p.Processors = max(l.Cores/n, 1)
	}
	p.MaxWorkers = s.Workers
	if s.Server == scenario.WorkerPool {
		workers := s.Workers
		if workers == 0 {
			workers = defaultWorkersPerLoop * p.Loops * n
		}
		p.MaxWorkers = divided(workers, n*p.Loops)
	}
}

// planPrefork plans one master, with as many workers as descriptors call for.
func (p *Plan) planPrefork(l Limits, port int) {
	s := p.Scenario
	perWorker := max(int(float64(l.filesFor())*preforkFill), 1)
	workers := max(s.Workers, divided(s.Conns, perWorker))
	if s.Workers == 0 {
		workers = max(workers, l.Cores)
	}
	p.Servers = []ServerGroup{{Addr: fmt.Sprintf("%s:%d", serverAddress(0), port), Conns: s.Conns, Workers: workers}}
	p.Loops, p.Processors = 1, 1
}

// planClients plans clients, each with addresses of its own. They fill one server
// after the other.
func (p *Plan) planClients(l Limits) {
	s := p.Scenario
	n := divided(s.Conns, l.filesFor())
	if n > 1 || s.ClientLoops != 1 { // a client of one core would measure itself
		n = max(n, min(l.Cores, s.Conns))
	}
	if s.ClientLoops > 1 && s.ClientLoops < n && divided(s.Conns, s.ClientLoops) <= l.filesFor() {
		n = s.ClientLoops
	}
	p.ClientLoops, p.ClientProcessors = loopsOf(s.ClientLoops, n, l.Cores)
	address, server, room := 0, 0, p.Servers[0].Conns
	for i := range n {
		c := Client{Conns: Share(s.Conns, n, i)}
		for left := c.Conns; left > 0; address++ {
			if room == 0 {
				server++
				room = p.Servers[server].Conns
			}
			conns := min(left, room, l.perPair())
			c.Targets = append(c.Targets, control.Target{Source: clientAddress(address), Addr: p.Servers[server].Addr, Conns: conns})
			left -= conns
			room -= conns
		}
		p.Clients = append(p.Clients, c)
	}
}

// loopsOf returns how many loops each of n processes has, so that there are
// wanted loops together, or one for each core, and its GOMAXPROCS.
func loopsOf(wanted, n, cores int) (loops, processors int) {
	if wanted <= 0 {
		wanted = cores
	}
	loops = divided(wanted, n)
	return loops, min(loops, cores)
}

// serverAddress and clientAddress return addresses of the loopback network that
// do not meet.
func serverAddress(i int) string { return fmt.Sprintf("127.1.%d.%d", i/250, i%250+1) }
func clientAddress(i int) string { return fmt.Sprintf("127.2.%d.%d", i/250, i%250+1) }

// Share returns the part of total that the i-th of n gets.
func Share(total, n, i int) int {
	part := total / n
	if i < total%n {
		part++
	}
	return part
}

// divided returns a/b, rounded up.
func divided(a, b int) int { return (a + b - 1) / b }

// Processes returns how many processes serve and hold connections.
func (p *Plan) Processes() (servers, clients int) {
	for _, group := range p.Servers {
		servers += max(group.Workers, 1)
	}
	return servers, len(p.Clients)
}

// memory estimates what the run takes.
func (p *Plan) memory() uint64 {
	server, client := costsOf(p.Scenario)
	perConn := kernelCost + server + client
	servers, clients := p.Processes()
	return uint64(p.Scenario.Conns)*uint64(perConn) + uint64(servers+clients)*processCost
}
