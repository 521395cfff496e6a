//go:build race

package sluice

// raceEnabled: under the race detector sync.Pool drops objects at random, so
// that allocations cannot be counted.
const raceEnabled = true
