package sluicetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
)

// leakLabel is the label of goroutines that a test has started.
const leakLabel = "sluicetest"

// CheckLeaks makes the test fail if goroutines that it starts from now on, or that these
// start, do not end within five seconds after everything else that t.Cleanup calls. So call it first.
// Goroutines of other tests, which may run in parallel, do not count: those of this one are
// found by a label (runtime/pprof.Labels).
//
// What holds a connection or a request is mostly a goroutine. Server.Close finds those of its
// clients and handlers, too.
func CheckLeaks(t testing.TB) {
	t.Helper()
	id := fmt.Sprintf("%s %x", t.Name(), rand.Uint64())
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(leakLabel, id)))
	t.Cleanup(func() {
		pprof.SetGoroutineLabels(context.Background())
		var left []string
		if !eventually(func() bool { left = labelled(id); return len(left) == 0 }) {
			t.Errorf("sluicetest: goroutines that the test has started still run:\n%s", strings.Join(left, "\n\n"))
		}
	})
}

// labelled returns the stacks of goroutines with a label.
func labelled(id string) (found []string) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return []string{err.Error()}
	}
	label := fmt.Sprintf("%q:%q", leakLabel, id)
	for part := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(part, label) {
			found = append(found, part)
		}
	}
	return found
}

// stacks returns those of all goroutines, or the first part of them.
func stacks() []byte {
	text := make([]byte, 1<<20)
	return text[:runtime.Stack(text, true)]
}
