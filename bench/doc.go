// Package bench compares sluice's server with fasthttp's and net/http's, in
// memory: its benchmarks hand pre-built requests to the servers and check every
// answer. The commands below it run the same comparison interleaved (ratios),
// over TCP (wire), and for idle connections' memory (idle).
package bench
