package supervise

import (
	"fmt"
	"os"
	"testing"
)

// roleVariable makes the test binary another program, so that tests have real
// processes to watch.
const roleVariable = "SUPERVISE_TEST_ROLE"

func TestMain(m *testing.M) {
	role, _ := TakeEnv(roleVariable)
	switch role {
	case "":
		// The race detector lets each process linger for a second at its end.
		os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
		os.Exit(m.Run())
	default:
		os.Exit(playRole(role))
	}
}

// unknownRole says that there is no such program.
func unknownRole(role string) int {
	fmt.Fprintln(os.Stderr, "no such role:", role)
	return 2
}
