// These benchmarks compare what a request costs its client: ours, fasthttp's and
// net/http's, in the cases of the client benchmarks of fasthttp's README. Clients and
// servers are in one process. In half of the cases the server is the same for all
// clients, in the others it is that of the client's library.

package client_test

import (
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// A scenario is a case of the benchmarks.
type scenario struct {
	title    string // as in the README
	parallel int    // goroutines that send requests, per P
	server   string // serverRaw or serverOwn; "": connections answer themselves
	isTCP    bool   // otherwise connections are in memory
	makers   []maker
}

// name tells scenarios apart: fasthttp's name, and the server.
func (s scenario) name() string {
	if s.server == "" {
		return s.title
	}
	return s.title + "/" + s.server
}

// scenarios returns the cases in the order of the tables.
func scenarios() []scenario {
	all := []scenario{{title: "DoFastServer", parallel: 1, makers: doMakers()}}
	for _, server := range []string{serverRaw, serverOwn} {
		makers := getMakers()
		if server == serverOwn {
			makers = makers[:len(makers)-1] // bytes has none
		}
		for _, n := range []int{1, 10, 100} {
			all = append(all, scenario{title: "GetEndToEnd" + strconv.Itoa(n) + "TCP", parallel: n, server: server, isTCP: true, makers: makers})
		}
		for _, n := range []int{1, 10, 100, 1000} {
			all = append(all, scenario{title: "GetEndToEnd" + strconv.Itoa(n) + "Inmemory", parallel: n, server: server, makers: makers})
		}
	}
	for _, n := range []int{1, 10, 100, 1000} {
		all = append(all, scenario{title: "PipelineClient" + strconv.Itoa(n), parallel: n, server: serverRaw, makers: pipelineMakers()})
	}
	return all
}

func BenchmarkClient(b *testing.B) {
	for _, s := range scenarios() {
		for _, m := range s.makers {
			b.Run(s.name()+"/"+m.name, func(b *testing.B) { s.run(b, m) })
		}
	}
}

// run sends b.N requests.
func (s scenario) run(b *testing.B, m maker) {
	at, err := s.open(m.name)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := at.stop(); err != nil {
			b.Error(err)
		}
	}()
	c := m.make(environment{dial: at.dial, conns: s.parallel * runtime.GOMAXPROCS(0)})
	defer c.close()
	b.ReportAllocs()
	b.SetParallelism(s.parallel)
	used := cpuTime(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for send := c.worker(); pb.Next(); {
			if err := send(); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-used).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// cpuTime is what all threads of this process have used: it leaves out what other
// processes take.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
