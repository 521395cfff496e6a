// Package clients compares what a request costs its client: ours, fasthttp's and
// net/http's, in the cases of the client benchmarks of fasthttp's README. Clients and
// servers are in one process. In half of the cases the server is the same for all
// clients, in the others it is that of the client's library.
package clients
