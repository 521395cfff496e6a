package plan

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// machine is one on which a million connections fit.
func machine() Limits {
	return Limits{
		FilesSoft: 20_000, FilesHard: 20_000, FilesPerProc: 1 << 20, FilesMax: 2_466_170, FilesOpen: 2_000,
		PortFirst: 32_768, PortLast: 60_999, TCPPages: 575_796, Backlog: 4096, Processes: 96_365, Cores: 2, Memory: 24 << 30,
	}
}

func find(t *testing.T, name string, conns int) scenario.Scenario {
	t.Helper()
	s, err := scenario.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	s.Conns = conns
	return s
}

func TestMake(t *testing.T) {
	large := machine()
	large.FilesHard = 2_000_000
	large.Cores = 40
	for _, c := range []struct {
		name                                string
		conns                               int
		limits                              Limits
		change                              func(*scenario.Scenario)
		servers, clients, processors, loops int
		maxWorkers                          int
	}{
		{"6", 1_000, machine(), nil, 1, 2, 2, 2, 0},
		{"6", 1_000_000, machine(), nil, 51, 51, 1, 1, 0},
		{"6", 1_000_000, large, nil, 1, 40, 40, 40, 0},
		{"5", 1_000, machine(), nil, 1, 2, 1, 1, 0},
		{"5", 1_000_000, large, nil, 1, 40, 1, 1, 0},
		{"4", 1_000, machine(), nil, 1, 1, 1, 1, 0},
		{"4", 1_000_000, machine(), nil, 51, 51, 1, 1, 0},
		{"7", 1_000, machine(), nil, 2, 2, 1, 1, 0},
		{"7", 1_000_000, machine(), nil, 53, 51, 1, 1, 0},
		{"7", 1_000, machine(), func(s *scenario.Scenario) { s.Workers = 5 }, 5, 2, 1, 1, 0},
		{"8", 1_000, machine(), nil, 1, 2, 2, 2, 64},
		{"8", 1_000, machine(), func(s *scenario.Scenario) { s.Loops, s.Workers = 4, 10 }, 1, 2, 2, 4, 3},
		{"8", 100_000, machine(), func(s *scenario.Scenario) { s.Workers = 12 }, 6, 6, 1, 1, 2},
		{"6", 1_000, machine(), func(s *scenario.Scenario) { s.Workers = 3 }, 1, 2, 2, 2, 3},
		{"http-epoll", 1_000, machine(), nil, 1, 2, 2, 2, 0},
		{"http-epoll", 1_000, machine(), func(s *scenario.Scenario) { s.Loops = 3 }, 1, 2, 2, 3, 0},
		{"http-workerpool", 1_000, machine(), nil, 1, 2, 2, 2, 64},
		{"https-epoll", 1_000_000, large, nil, 1, 40, 40, 40, 0},
		{"https-compact", 1_000_000, machine(), nil, 51, 51, 1, 1, 0},
		{"https-goroutine", 1_000, machine(), nil, 1, 2, 2, 2, 0},
		{"ws-epoll", 100_000, machine(), nil, 6, 6, 1, 1, 0},
		{"11", 1_000, machine(), nil, 1, 2, 2, 2, 0},
		{"11", 100_000, machine(), nil, 6, 6, 1, 1, 0},
		{"9", 1, machine(), nil, 1, 1, 2, 2, 0},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.name, c.conns), func(t *testing.T) {
			s := find(t, c.name, c.conns)
			if c.change != nil {
				c.change(&s)
			}
			p := Make(s, c.limits, 18_000)
			servers, clients := p.Processes()
			if servers != c.servers || clients != c.clients || p.Processors != c.processors {
				t.Errorf("%d servers, %d clients, %d processors; want %d, %d, %d", servers, clients, p.Processors, c.servers, c.clients, c.processors)
			}
			if s.Server != scenario.Prefork && p.MaxWorkers != c.maxWorkers {
				t.Errorf("%d workers for each loop, want %d", p.MaxWorkers, c.maxWorkers)
			}
			if p.Loops != c.loops {
				t.Errorf("%d loops in a process, want %d", p.Loops, c.loops)
			}
			checkWhole(t, &p, c.limits)
		})
	}
}

// checkWhole checks what must hold for every plan.
func checkWhole(t *testing.T, p *Plan, l Limits) {
	t.Helper()
	held, wanted := 0, make(map[string]int)
	pairs := make(map[string]int)
	for _, group := range p.Servers {
		held += group.Conns
		if perProcess := group.Conns / max(group.Workers, 1); perProcess > l.filesFor() {
			t.Errorf("a server process has %d connections", perProcess)
		}
	}
	made := 0
	for i, c := range p.Clients {
		sum := 0
		for _, target := range c.Targets {
			sum += target.Conns
			wanted[target.Addr] += target.Conns
			pairs[target.Source+" "+target.Addr] += target.Conns
			if target.Conns < 1 {
				t.Errorf("client %d has a target for %d connections", i, target.Conns)
			}
		}
		if sum != c.Conns || sum > l.filesFor() {
			t.Errorf("client %d has %d connections, of which %d have a target", i, c.Conns, sum)
		}
		made += sum
	}
	if held != p.Scenario.Conns || made != held {
		t.Errorf("servers have %d connections and clients %d, want %d", held, made, p.Scenario.Conns)
	}
	for _, group := range p.Servers {
		if got := wanted[group.Addr]; group.Workers == 0 && got > l.filesFor() {
			t.Errorf("%d connections go to %s", got, group.Addr)
		}
	}
	for pair, n := range pairs {
		if n > l.ports() {
			t.Errorf("%d connections between %s, for %d ports", n, pair, l.ports())
		}
	}
}

// TestVeryMany: what is far out of reach is planned as fast as anything else, and
// no address is made up.
func TestVeryMany(t *testing.T) {
	few, ports := machine(), machine()
	few.FilesHard, few.FilesPerProc = 50, 50
	ports.PortFirst, ports.PortLast = 60_000, 60_003
	for _, c := range []struct {
		limits Limits
		conns  int
	}{{machine(), 100_000_000}, {machine(), 2_000_000_000}, {few, 100_000_000}, {ports, 100_000_000}, {ports, 50_000}} {
		for _, name := range []string{"6", "7"} {
			c.limits.Memory = 1 << 50
			p := Make(find(t, name, c.conns), c.limits, 18_000)
			targets := 0
			for _, client := range p.Clients {
				targets += len(client.Targets)
			}
			isMuch := len(p.Clients) == 0 && strings.Contains(p.Obstacles[0].What, "addresses")
			if targets > maxAddresses || p.IsBlocked() != (c.conns > 50_000) || isMuch && targets > 0 || !isMuch && targets == 0 {
				t.Errorf("%s, %d connections: %d targets, in the way: %+v", name, c.conns, targets, p.Obstacles)
			}
		}
	}
}

// TestLoopFiles: loops and workers have descriptors, too.
func TestLoopFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*scenario.Scenario)
		what   string // "": nothing
	}{
		{"6", func(s *scenario.Scenario) { s.Loops = 20_000 }, "of one server"},
		{"6", func(s *scenario.Scenario) { s.Loops = 19_000 }, ""},
		{"ws-epoll", func(s *scenario.Scenario) { s.Loops = 20_000 }, "of one server"},
		{"11", func(s *scenario.Scenario) { s.Loops = 20_000 }, ""}, // it has goroutines
		{"6", func(s *scenario.Scenario) { s.ClientLoops = 40_000 }, "of one client"},
		{"6", func(s *scenario.Scenario) { s.ClientLoops = 9_999 }, ""},
		{"6", func(s *scenario.Scenario) { s.ClientLoops, s.Client = 40_000, scenario.GoroutineClient }, ""},
		{"7", func(s *scenario.Scenario) { s.Workers = 7_000 }, "of the master"},
		{"7", func(s *scenario.Scenario) { s.Workers = 6_000 }, ""},
	} {
		s := find(t, c.name, 10)
		c.change(&s)
		l := machine()
		l.Memory = 1 << 50
		p := Make(s, l, 18_000)
		if p.IsBlocked() != (c.what != "") || c.what != "" && !strings.Contains(p.Obstacles[0].What, c.what) {
			t.Errorf("%s, %q: in the way: %+v", c.name, c.what, p.Obstacles)
		}
	}
	// As many as there are cores never make a plan impossible.
	l := machine()
	l.Cores = 256
	for conns := 19_000; conns < 20_000; conns += 10 {
		for _, name := range []string{"6", "ws-epoll"} {
			if p := Make(find(t, name, conns), l, 18_000); p.IsBlocked() {
				t.Fatalf("%s, %d connections: %+v", name, conns, p.Obstacles)
			}
		}
	}
}

// TestLessMemory: what is said to fit does, and nothing is said where nothing does.
func TestLessMemory(t *testing.T) {
	for _, c := range []struct {
		name    string
		workers int
		memory  uint64
		says    string
	}{
		{"6", 0, 2 << 30, "--conns"}, {"7", 0, 2 << 30, "--conns"}, {"https-epoll", 0, 8 << 30, "--conns"},
		{"7", 100, 4 << 30, "--conns"}, {"7", 5_000, 4 << 30, "fewer --workers"}, {"6", 0, 1 << 20, "more memory"},
	} {
		l := machine()
		l.Memory = c.memory
		s := find(t, c.name, 1_000_000)
		s.Workers = c.workers
		var lift string
		for _, o := range Make(s, l, 18_000).Obstacles {
			if strings.HasPrefix(o.What, "memory") {
				lift = o.Lift
			}
		}
		if _, number, isNumber := strings.Cut(lift, "--conns "); isNumber {
			s.Conns, _ = strconv.Atoi(number)
			if p := Make(s, l, 18_000); s.Conns < 1 || p.IsBlocked() {
				t.Errorf("%+v: %q, and still %+v", c, lift, p.Obstacles)
			}
		}
		if !strings.Contains(lift, c.says) {
			t.Errorf("%+v: %q", c, lift)
		}
	}
}

// TestFewPorts has one client need several addresses.
func TestFewPorts(t *testing.T) {
	l := machine()
	l.PortFirst, l.PortLast = 60_000, 60_999
	s := find(t, "7", 30_000)
	p := Make(s, l, 18_000)
	checkWhole(t, &p, l)
	if n := len(p.Clients[0].Targets); n != 60 {
		t.Errorf("a client has %d addresses, want 60", n)
	}
	if p.IsBlocked() || len(p.Obstacles) != 1 || !strings.Contains(p.Obstacles[0].What, "ports") {
		t.Errorf("in the way: %+v", p.Obstacles)
	}
}

func TestObstacles(t *testing.T) {
	for _, c := range []struct {
		name    string
		conns   int
		change  func(*Limits)
		what    string // "": nothing
		lift    string
		isFatal bool
	}{
		{"fits", 1_000_000, func(*Limits) {}, "", "", false},
		{"descriptors", 1_000, func(l *Limits) { l.FilesHard = 150 }, "RLIMIT_NOFILE", "ulimit -n 1048576", true},
		{"many processes", 1_000_000, func(l *Limits) { l.FilesHard = 4_096 }, "fewer than 502 processes", "ulimit -n 10100", false},
		{"nr_open", 1_000_000, func(l *Limits) { l.FilesHard, l.FilesPerProc = 4_096, 4_096 }, "fewer than 502 processes", `sysctl -w fs.nr_open="10100"`, false},
		{"file-max", 1_000_000, func(l *Limits) { l.FilesMax = 1_000_000 }, "fs.file-max", `sysctl -w fs.file-max="2012200"`, true},
		{"memory", 1_000_000, func(l *Limits) { l.Memory = 8 << 30 }, "memory", "more memory, or --conns 7", true},
		{"backlog", 1_000, func(l *Limits) { l.Backlog = 128 }, "somaxconn", `sysctl -w net.core.somaxconn="1024"`, false},
		{"watches", 1_000_000, func(l *Limits) { l.Watches = 1_000_000 }, "max_user_watches", `sysctl -w fs.epoll.max_user_watches="2000000"`, true},
		{"firewall", 1_000_000, func(l *Limits) { l.Tracked = 65_536 }, "nf_conntrack_max", `sysctl -w net.netfilter.nf_conntrack_max="1100000"`, false},
		{"pids", 1_000_000, func(l *Limits) { l.Processes = 300 }, "pids.max", "ulimit -u", true},
		{"table", 1_000_000, func(l *Limits) { l.Buckets = 262_144 }, "tcp_ehash_entries", "runs are then in a network namespace", false},
		{"table of a namespace", 1_000_000, func(l *Limits) { l.Buckets, l.ChildBuckets = 262_144, 2_097_152 }, "", "", false},
		{"unknown", 1_000_000, func(l *Limits) { l.Processes, l.TCPPages = 0, 0 }, "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := machine()
			c.change(&l)
			s := find(t, "6", c.conns)
			p := Make(s, l, 18_000)
			if c.what == "" {
				if len(p.Obstacles) > 0 {
					t.Errorf("in the way: %+v", p.Obstacles)
				}
				return
			}
			if len(p.Obstacles) == 0 {
				t.Fatal("nothing is in the way")
			}
			o := p.Obstacles[0]
			lift := o.Lift
			if o.Setting != nil {
				lift += " " + o.Setting.String()
			}
			if !strings.Contains(o.What, c.what) || !strings.Contains(lift, c.lift) || o.IsFatal != c.isFatal || p.IsBlocked() != c.isFatal {
				t.Errorf("%+v, %s", o, lift)
			}
		})
	}
}

// TestMemory: what a connection takes depends on what is spoken and by whom.
func TestMemory(t *testing.T) {
	const conns, fixed = 100_000, 12 * processCost
	for name, least := range map[string]int{
		"6": 9_000, "http-epoll": 9_000, "11": 15_000, "http-goroutine": 15_000,
		"https-epoll": 22_000, "https-compact": 9_500, "https-goroutine": 42_000, "h2-epoll": 13_000, "h2-goroutine": 29_000, "ws-epoll": 10_000, "ws-goroutine": 16_000,
		"sse-epoll": 10_000, "sse-goroutine": 28_000,
	} {
		p := Make(find(t, name, conns), machine(), 18_000)
		if each := (int(p.Memory) - fixed) / conns; each < least || each > least*5/4 {
			t.Errorf("%s: %d bytes for each connection", name, each)
		}
	}
	p := Make(find(t, "https-compact", 1_000_000), machine(), 18_000)
	if p.IsBlocked() {
		t.Errorf("a million connections of compact TLS do not fit: %+v", p.Obstacles)
	}
	p = Make(find(t, "https-goroutine", 1_000_000), machine(), 18_000)
	if !p.IsBlocked() || !strings.Contains(p.Obstacles[0].What, "memory") {
		t.Errorf("a million connections of TLS fit: %+v", p.Obstacles)
	}
}

// TestInFlight: what is on its way fits into the memory of socket buffers.
func TestInFlight(t *testing.T) {
	l := machine()
	s := find(t, "6", 1_000_000)
	if p := Make(s, l, 18_000); p.InFlight != p.AtOnce*inFlightEach || p.AtOnce != 4 {
		t.Errorf("%d in flight", p.InFlight)
	}
	if p := Make(find(t, "7", 1_000_000), l, 18_000); p.InFlight != p.Servers[0].Workers*inFlightEach || p.AtOnce != 4 {
		t.Errorf("%d in flight for prefork", p.InFlight)
	}
	l.TCPPages = 4_000
	if p := Make(s, l, 18_000); p.InFlight != 1_000 {
		t.Errorf("%d in flight", p.InFlight)
	}
	s.Conns = 10
	if p := Make(s, l, 18_000); p.InFlight != 10 {
		t.Errorf("%d in flight for 10 connections", p.InFlight)
	}
}
