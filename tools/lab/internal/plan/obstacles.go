package plan

import (
	"fmt"
	"math/bits"
	"sort"

	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// An Obstacle is something that a plan needs and the system does not have.
type Obstacle struct {
	What string `json:"what"`
	Have uint64 `json:"have"`
	Need uint64 `json:"need"`
	// Lift is what lifts it, in words where Setting is empty.
	Lift    string   `json:"lift,omitempty"`
	Setting *Setting `json:"setting,omitempty"`
	// IsFatal reports whether the run would fail. Otherwise it is only slower, or smaller.
	IsFatal bool `json:"is_fatal"`
}

// A Setting is a kernel parameter and the value that it needs.
type Setting struct {
	Key   string `json:"key"` // as sysctl has it
	Value string `json:"value"`
}

// String returns the command that makes the setting.
func (s Setting) String() string { return fmt.Sprintf("sysctl -w %s=%q", s.Key, s.Value) }

// IsBlocked reports whether an obstacle is fatal.
func (p *Plan) IsBlocked() bool {
	for _, o := range p.Obstacles {
		if o.IsFatal {
			return true
		}
	}
	return false
}

const (
	// minFiles is what a process needs at least to be of any use.
	minFiles = 2 * spareFiles
	// manyProcesses is when splitting begins to cost more than it is worth.
	manyProcesses = 200
	minBacklog    = 1024
	minPorts      = 4_000
	threadsEach   = 12
)

// A list is obstacles that have been found.
type list []Obstacle

// add adds what there is less of than needed.
func (all *list) add(isFatal bool, what string, have, need int, lift string, setting *Setting) {
	if have < need {
		*all = append(*all, Obstacle{What: what, Have: uint64(max(have, 0)), Need: uint64(need), Lift: lift, Setting: setting, IsFatal: isFatal})
	}
}

// tooMany says what stops so many connections whatever the processes.
func tooMany(l Limits, conns int) (all list) {
	all.add(true, "addresses for clients (127.2.0.0/16)", maxAddresses, l.addressesFor(conns), "ulimit -n, more ports (net.ipv4.ip_local_port_range), or fewer --conns", nil)
	return all
}

// obstacles says what the system does not have.
func (p *Plan) obstacles(l Limits) []Obstacle {
	all := p.descriptors(l)
	add := all.add
	servers, clients := p.Processes()
	files := l.FilesOpen + 2*p.Scenario.Conns + (servers+clients)*spareFiles
	add(true, "descriptors of the system (fs.file-max)", l.FilesMax, files, "", settingIf(true, "fs.file-max", files))
	if l.Watches > 0 {
		add(true, "descriptors that event loops watch (fs.epoll.max_user_watches)", l.Watches, 2*p.Scenario.Conns, "", settingIf(true, "fs.epoll.max_user_watches", 2*p.Scenario.Conns))
	}
	if l.Tracked > 0 { // which does not say that those on loopback are
		tracked := p.Scenario.Conns + p.Scenario.Conns/10
		add(false, "connections that a firewall may track (nf_conntrack_max)", l.Tracked, tracked, "", settingIf(true, "net.netfilter.nf_conntrack_max", tracked))
	}
	add(false, "ports for one pair of addresses (ip_local_port_range)", l.ports(), min(minPorts, p.Scenario.Conns),
		"", &Setting{Key: "net.ipv4.ip_local_port_range", Value: "15000 65000"})
	add(false, "connections that wait to be accepted (net.core.somaxconn)", l.Backlog, min(minBacklog, p.Scenario.Conns), "", settingIf(true, "net.core.somaxconn", minBacklog))
	if l.Buckets > 0 {
		add(false, "buckets of the kernel's table of TCP connections (tcp_ehash_entries)", max(l.Buckets, l.ChildBuckets), bucketsFor(p.Scenario.Conns),
			"runs are then in a network namespace of their own, which takes root", settingIf(true, "net.ipv4.tcp_child_ehash_entries", bucketsFor(p.Scenario.Conns)))
	}
	if l.Processes > 0 {
		add(true, "processes and threads (RLIMIT_NPROC, pids.max)", l.Processes, (servers+clients)*threadsEach, "ulimit -u, or pids.max of the control group", nil)
	}
	if l.Memory < p.Memory {
		all = append(all, Obstacle{What: "memory, bytes (estimate)", Have: l.Memory, Need: p.Memory, IsFatal: true, Lift: p.lessMemory(l)})
	}
	pages := p.InFlight * bufferedPages
	if l.TCPPages > 0 {
		add(false, "pages for socket buffers (tcp_mem)", l.TCPPages, pages, "", tcpMemory(pages))
	}
	return all
}

// descriptors says what processes of the plan need more of.
func (p *Plan) descriptors(l Limits) (all list) {
	servers, clients := p.Processes()
	all.add(true, "descriptors of one process (RLIMIT_NOFILE)", l.FilesHard, minFiles,
		fmt.Sprintf("ulimit -n %d, as root or by LimitNOFILE= of the service", max(l.FilesPerProc, 20_000)), nil)
	for _, group := range p.Servers[:min(len(p.Servers), 1)] { // no other has more
		if group.Workers > 0 {
			need := sparedFor(group.Workers * filesPerWorker)
			all.add(true, "descriptors of the master of all workers", l.FilesHard, need, fmt.Sprintf("ulimit -n %d, or fewer --workers", need), nil)
			continue
		}
		need := group.Conns + sparedFor(p.serverLoopFiles())
		all.add(true, "descriptors of one server, its event loops included", l.FilesHard, need, fmt.Sprintf("ulimit -n %d, or fewer --loops", need), nil)
	}
	for _, client := range p.Clients[:min(len(p.Clients), 1)] {
		need := client.Conns + sparedFor(p.clientLoopFiles())
		all.add(true, "descriptors of one client, its event loops included", l.FilesHard, need, fmt.Sprintf("ulimit -n %d, or fewer --client-loops", need), nil)
	}
	wanted := (p.Scenario.Conns*2)/manyProcesses + spareFiles
	all.add(false, fmt.Sprintf("descriptors of one process, for fewer than %d processes", servers+clients), l.FilesHard, wanted,
		fmt.Sprintf("ulimit -n %d", wanted), settingIf(wanted > l.FilesPerProc, "fs.nr_open", wanted))
	return all
}

// serverLoopFiles returns how many descriptors the loops of a server have.
func (p *Plan) serverLoopFiles() int {
	if p.Scenario.Server == scenario.Goroutine {
		return 0
	}
	return p.Loops * filesPerLoop
}

// clientLoopFiles is serverLoopFiles for a client.
func (p *Plan) clientLoopFiles() int {
	if p.Scenario.Client == scenario.GoroutineClient {
		return 0
	}
	return p.ClientLoops * filesPerLoop
}

// bucketsFor returns how many buckets hold both ends of the connections with one in each
// at most, on average. The kernel takes powers of two.
func bucketsFor(conns int) int { return 1 << bits.Len(uint(2*conns-1)) }

// lessMemory says how many connections would fit.
func (p *Plan) lessMemory(l Limits) string {
	fits := sort.Search(p.Scenario.Conns, func(fewer int) bool {
		other := Plan{Scenario: p.Scenario}
		other.Scenario.Conns = fewer + 1
		other.layOut(l, 0)
		return other.Memory > l.Memory
	})
	switch {
	case fits > 0:
		return fmt.Sprintf("more memory, or --conns %d", fits)
	case p.Scenario.Workers > 0 && p.Scenario.Server == scenario.Prefork:
		return "more memory, or fewer --workers"
	}
	return "more memory"
}

// tcpMemory returns the setting with room for pages.
func tcpMemory(pages int) *Setting {
	return &Setting{Key: "net.ipv4.tcp_mem", Value: fmt.Sprintf("%d %d %d", pages, pages*5/4, pages*3/2)}
}

// settingIf returns a setting, nil if it is not needed.
func settingIf(isNeeded bool, key string, value int) *Setting {
	if !isNeeded {
		return nil
	}
	return &Setting{Key: key, Value: fmt.Sprint(value)}
}
