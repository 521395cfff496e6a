package http2

import "testing"

// TestOutputGrows: what is sent makes the output of an engine's worker only as large as it
// needs, or at once as large as it can become, if it is large.
func TestOutputGrows(t *testing.T) {
	const lent = 4 << 10 // what engines lend
	for name, test := range map[string]struct {
		streams, size, most int
	}{
		"an event":    {1, 50, lent},
		"many events": {100, 50, 10 << 10},
		"files":       {8, 60 << 10, turnSize},
	} {
		t.Run(name, func(t *testing.T) {
			e := withWindow(t, 64<<10)
			var sources []*source
			for i := range test.streams {
				sources = append(sources, e.produce(uint32(2*i+1), ""))
			}
			e.isBlocked = true
			for _, s := range sources {
				s.has(test.size)
			}
			out, _ := e.conn.Prompted(make([]byte, 0, lent))
			if len(out) <= min(test.streams*test.size, turnSize/2) || cap(out) > test.most {
				t.Errorf("%d bytes of output have a buffer of %d, at most %d are wanted", len(out), cap(out), test.most)
			}
			e.close()
		})
	}
}
