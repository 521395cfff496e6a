package websocket

import (
	"fmt"
	"testing"
)

// TestNames: values print as words.
func TestNames(t *testing.T) {
	for want, value := range map[string]fmt.Stringer{
		"text": Text, "binary": Binary, "Kind(9)": Kind(9),
		"close": SlowClose, "block": SlowBlock, "drop new": SlowDropNew, "drop old": SlowDropOld, "coalesce": SlowCoalesce, "SlowPolicy(5)": SlowPolicy(5),
		"off": CompressionOff, "shared": CompressionShared, "takeover": CompressionTakeover, "Compression(3)": Compression(3),
	} {
		if got := fmt.Sprint(value); got != want {
			t.Errorf("%#v prints as %s, want %s", value, got, want)
		}
	}
}
