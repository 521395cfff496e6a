package prefork

import (
	"os"
	"testing"
)

// roleVariable has the test binary be something else: a fleet.
const roleVariable = "SLUICE_PREFORK_TEST"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	// The race detector has processes wait for a second before they end.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	os.Exit(m.Run())
}
