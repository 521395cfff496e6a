package prefork

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// roleVariable makes the test binary play a fleet.
const roleVariable = "SLUICE_PREFORK_TEST"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	// Otherwise the race detector delays each exit by a second.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	// The parallel tests mostly wait, so more of them may run than there are processors.
	flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	os.Exit(m.Run())
}
