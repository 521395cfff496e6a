// Package stackless runs functions that use much stack or much processor time
// on a bounded set of goroutines: as many as GOMAXPROCS. The goroutines that
// call the functions keep small stacks.
package stackless
