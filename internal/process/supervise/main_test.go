package supervise

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// roleVariable makes the test binary play another program, so that tests can
// supervise real processes.
const roleVariable = "SUPERVISE_TEST_ROLE"

func TestMain(m *testing.M) {
	role, _ := TakeEnv(roleVariable)
	switch role {
	case "":
		// Otherwise the race detector delays each exit by a second.
		os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
		// The parallel tests mostly wait, so more of them may run than there are processors.
		flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
		os.Exit(m.Run())
	default:
		os.Exit(playRole(role))
	}
}

// unknownRole reports an unknown role.
func unknownRole(role string) int {
	fmt.Fprintln(os.Stderr, "no such role:", role)
	return 2
}
