package nettest

import (
	"flag"
	"testing"
)

// RunWaiting is m.Run for a package whose parallel tests mostly wait: more of them run at
// the same time than there are processors. A fuzzer would take the number for its workers,
// which do not wait.
func RunWaiting(m *testing.M) (status int) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() == "" {
		_ = flag.Set("test.parallel", "8") // a number cannot be refused
	}
	return m.Run()
}
