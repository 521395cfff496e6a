package sluice

import (
	"flag"
	"os"
	"testing"
)

// TestMain has more tests run at the same time than there are processors: the parallel
// ones mostly wait.
func TestMain(m *testing.M) {
	flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}
