package http2

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// TestPriorities: who sends first of a download on stream 1 and a later small answer on
// stream 3, both of which wait (RFC 9218).
func TestPriorities(t *testing.T) {
	const (
		download = 1 << 20
		small    = 20 << 10
	)
	type names struct{ early, first, second, late string } // PRIORITY_UPDATE of 3, the fields, PRIORITY_UPDATE of 3
	for _, c := range []struct {
		name        string
		names       names
		least, most int // bytes of the download before the end of the small answer
	}{
		{"none: the download becomes incremental", names{}, inOrderSize, inOrderSize + turnSize},
		{"the download comes in order", names{first: "u=3"}, download, download},
		{"the download is incremental", names{first: "i"}, frameSize, turnSize},
		{"the small answer is urgent", names{second: "u=0"}, 0, 0},
		{"the small answer has every 16th frame", names{second: "u=7"}, 16 * frameSize, 32 * frameSize},
		{"early", names{early: "u=0"}, 0, 0},
		{"early overrides the field", names{early: "u=0", second: "u=7"}, 0, 0},
		{"late overrides both", names{early: "u=7", second: "u=7", late: "u=0"}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(t, testConfig())
			e.handler = func(r *testRequest) {
				r.stream.Respond(fields{status: 200}, make([]byte, map[uint32]int{1: download, 3: small}[r.id]))
			}
			e.feed(h2.AppendWindowUpdate(setting(nil, uint32(h2.SettingInitialWindowSize), 1<<30), 0, 1<<30))
			update := func(value string) {
				if value != "" {
					e.feed(priorityUpdate(nil, 3, value))
				}
			}
			e.isBlocked = true
			update(c.names.early)
			e.feed(e.peer.request(nil, 1, get, true, named(c.names.first)...))
			e.feed(e.peer.request(nil, 3, get, true, named(c.names.second)...))
			e.runTasks()
			update(c.names.late)
			e.isBlocked = false
			e.pump()
			if got := before(e.peer.took()); got < c.least || got > c.most {
				t.Errorf("%d bytes of the download come before the end of the small answer, want %d to %d", got, c.least, c.most)
			}
			if e.peer.data[1] != download || e.peer.data[3] != small {
				t.Errorf("sent %v", e.peer.data)
			}
		})
	}
}

// named are the fields of a request of this priority.
func named(priority string) []string {
	if priority == "" {
		return nil
	}
	return []string{"priority", priority}
}

// before counts the content of stream 1 before the end of stream 3.
func before(took string) (sum int) {
	for line := range strings.SplitSeq(took, ", ") {
		var id uint32
		var n int
		if _, err := fmt.Sscanf(line, "DATA %d %d", &id, &n); err != nil {
			continue
		}
		if id == 1 {
			sum += n
		} else if strings.HasSuffix(line, "END") {
			return sum
		}
	}
	return -1
}

// priorityUpdate appends PRIORITY_UPDATE.
func priorityUpdate(dst []byte, stream uint32, value string) []byte {
	return frame(dst, 0x10, 0, 0, slices.Concat([]byte{byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}, []byte(value)))
}
