// Package metrics shows what a prefork server does to Prometheus.
//
//	p := prefork.New(server)
//	p.AdminHandler = metrics.Handler(p)
//	p.Admin = "127.0.0.1:9090"
//
// Every process of the server, master and workers alike, has the numbers of all:
// counters are sums over the workers, those that are gone too, and never
// decrease; gauges are of each worker. So it does not matter which one is asked,
// and the handler works on the workers' own port as well.
//
// The numbers come from package shared, where the workers write them as they go.
// The counters, gauges and histograms that a program keeps there are shown too.
package metrics
