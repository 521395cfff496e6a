package sluice

import (
	"flag"
	"os"
	"testing"
)

// TestMain has more tests run at the same time than there are processors: the parallel
// ones mostly wait. A fuzzer would take the number for its workers, which do not.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() == "" {
		flag.Set("test.parallel", "8")
	}
	os.Exit(m.Run())
}
