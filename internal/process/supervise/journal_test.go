package supervise

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
)

// gatedLog is a Logger that blocks while its gate is closed.
type gatedLog struct {
	gate  chan struct{} // nil: open
	lines []string
}

func (g *gatedLog) Printf(format string, args ...any) {
	if g.gate != nil {
		<-g.gate
	}
	g.lines = append(g.lines, fmt.Sprintf(format, args...))
}

func TestJournalKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &gatedLog{}
		j := NewJournal(log)
		if NewJournal(j) != j {
			t.Error("a journal of a journal")
		}
		j.Flush() // nothing to wait for
		var want []string
		for i := range journalLines {
			j.Printf("line %d of %s", i, "the log")
			want = append(want, fmt.Sprintf("line %d of the log", i))
		}
		j.Flush()
		if !reflect.DeepEqual(log.lines, want) || j.Dropped() != 0 {
			t.Errorf("%d lines, %d dropped", len(log.lines), j.Dropped())
		}
	})
}

// If the log blocks, neither Printf nor Flush waits for it and memory is bounded.
// When it goes on, a line in place of the dropped ones says how many there were.
func TestJournalDrops(t *testing.T) {
	for _, c := range []struct {
		name       string
		size, kept int
	}{
		{"many lines", 10, journalLines},
		{"long lines", journalBytes / 4, 4},
		{"one that is too long", 2 * journalBytes, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &gatedLog{gate: make(chan struct{})}
				j := NewJournal(log)
				line := strings.Repeat("x", c.size)
				for range c.kept + 5 {
					j.Printf("%s", line)
				}
				if j.Dropped() != 5 || len(j.lines) != c.kept || j.size != c.kept*c.size {
					t.Fatalf("%d dropped, %d lines of %d bytes wait", j.Dropped(), len(j.lines), j.size)
				}
				j.Flush()
				close(log.gate)
				synctest.Wait()
				j.Printf("after")
				j.Flush()
				last := log.lines[len(log.lines)-2:]
				want := []string{"5 lines of the log were dropped: lines were written faster than they were read", "after"}
				if len(log.lines) != c.kept+2 || !reflect.DeepEqual(last, want) {
					t.Errorf("%d lines, the last: %.200q", len(log.lines), last)
				}
				if j.Dropped() != 5 || j.size != 0 {
					t.Errorf("%d dropped, %d bytes", j.Dropped(), j.size)
				}
			})
		})
	}
}
