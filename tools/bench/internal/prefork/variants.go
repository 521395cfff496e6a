package prefork

import (
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

// A variant is a server and the processes that it runs in.
type variant struct {
	name string
	base string // the variant that it is compared with; "": this is one of those

	Options       // but for Workers
	oneP     bool // a single process has GOMAXPROCS 1
	optional bool // runs if it is named only
}

func allVariants() []variant {
	return []variant{
		{name: "epoll", Options: Options{Kind: peers.Epoll}},
		{name: "epoll, one P", base: "epoll", oneP: true, Options: Options{Kind: peers.Epoll}},
		{name: "epoll prefork", base: "epoll", Options: Options{Kind: peers.Epoll, Prefork: true}},
		{name: "epoll prefork, one socket", base: "epoll", optional: true, Options: Options{Kind: peers.Epoll, Prefork: true, Shared: true}},
		{name: "epoll prefork, two Ps", base: "epoll", optional: true, Options: Options{Kind: peers.Epoll, Prefork: true, Procs: 2}},
		{name: "perconn", Options: Options{Kind: peers.PerConn}},
		{name: "perconn prefork", base: "perconn", Options: Options{Kind: peers.PerConn, Prefork: true}},
		{name: "fasthttp", Options: Options{Kind: peers.FastHTTP}},
		{name: "fasthttp, one P", base: "fasthttp", oneP: true, Options: Options{Kind: peers.FastHTTP}},
		{name: "fasthttp prefork", base: "fasthttp", Options: Options{Kind: peers.FastHTTP, Prefork: true}},
		{name: "fasthttp prefork, reuseport", base: "fasthttp", Options: Options{Kind: peers.FastHTTP, Prefork: true, Reuseport: true}},
	}
}

func (v variant) named() string { return v.name }

// usages returns what each process has used.
func usages(s *Server) ([]usage, error) {
	all := make([]usage, len(s.PIDs))
	for i, pid := range s.PIDs {
		var err error
		if all[i], err = usageOf(pid); err != nil {
			return nil, err
		}
	}
	return all, nil
}
