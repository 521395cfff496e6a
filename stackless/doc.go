// Package stackless runs functions that use much stack, or much processor
// time, on a bounded set of goroutines: as many as there are processors. The
// many goroutines that call them keep their stacks small.
package stackless
