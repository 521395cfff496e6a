//go:build !race

package fasthttputil

// raceEnabled: see race_on_test.go.
const raceEnabled = false
