// Package metrics exports the status of a server to Prometheus. One process:
//
//	figures := metrics.ServerHandler(server) // answers on a private address, or for some path
//
// And a prefork server:
//
//	p := prefork.New(server)
//	p.AdminHandler = metrics.Handler(p)
//	p.Admin = "127.0.0.1:9090"
//
// Every process of the server, master and workers, has the metrics of all. Counters
// are sums over the workers, including those that have ended, and never decrease.
// Gauges are for each worker. So Prometheus may ask any process, and the handler also
// works on the workers' port.
//
// The numbers come from package shared, to which the workers write them. Counters,
// gauges and histograms that a program has there are included.
package metrics
