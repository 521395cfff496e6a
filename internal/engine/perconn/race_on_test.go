//go:build race

package perconn

const raceEnabled = true
