package load

import (
	"strings"
	"testing"
)

// The sources of turns' connections are loopback addresses, and differ.
func TestSources(t *testing.T) {
	seen := make(map[string]bool)
	for turn := range 3 {
		for _, opened := range []int{0, 20_000} {
			source := Load{Turn: turn}.source(opened)
			if seen[source] || !strings.HasPrefix(source, "127.0.") {
				t.Errorf("turn %d after %d: %s", turn, opened, source)
			}
			seen[source] = true
		}
	}
}
