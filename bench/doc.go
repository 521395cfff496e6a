// Package bench compares sluice's server with fasthttp's and net/http's, in
// memory: its benchmarks hand pre-built requests to the servers and check every
// answer. The commands below it run the same comparison interleaved (ratios),
// over TCP (wire), for idle connections' memory (idle), and for what sluice's
// two engines do to others: to the rest of the process (fairness), to each
// other's handlers (mix), and in the long run (hold). Static files are compared
// with nginx's (files), and large bodies are measured whose clients stop reading
// (stall). Content codings are compared with the libraries that make them
// (compress), the clients with each other (client), and servers of several
// processes with the same servers as one (prefork). The tables of fasthttp's
// README are beside the published figures in seeds, and at the end of wire's
// report.
package bench
