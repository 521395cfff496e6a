//go:build !race

package perconn

const raceEnabled = false
