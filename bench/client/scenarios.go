package main

import "strconv"

// A scenario is a case of the benchmarks.
type scenario struct {
	title    string // as in the README
	parallel int    // goroutines that send requests, per P
	server   string // serverRaw or serverOwn; "": connections answer themselves
	isTCP    bool   // otherwise connections are in memory
	makers   []maker
}

// name tells scenarios apart.
func (s scenario) name() string {
	if s.server == "" {
		return s.title
	}
	return s.title + ", " + s.server
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
